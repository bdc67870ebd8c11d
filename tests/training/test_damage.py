"""A run that has ended stays as it was: damage is noticed, named, and mended where it can be."""

import json
import random
import shutil
from dataclasses import asdict, replace

import pytest
from tiny_runs import TINY_RUNS, Silent, run_once, with_steps

from rda.report.comparison import build_comparison
from rda.settings import Recipe
from rda.training import load
from rda.training.manifest import MANIFEST
from rda.training.record import (
    CHECKPOINTS,
    ENVIRONMENT,
    METRICS,
    MODEL,
    SEALED,
    SETTINGS,
    STATUS,
    TIMING,
    Record,
)
from rda.training.settings import ADDED_LATER, full_settings, to_table
from rda.training.settings_file import from_table
from rda.training.status import FINISHED, RecordError, Status

RUN = with_steps(TINY_RUNS["multicopy"], 6, stop_at="never")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage") / "run"
    run_once(folder, RUN)
    return folder


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def flip(path, position=-3):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", [*SEALED, MANIFEST])
@pytest.mark.parametrize("how", ["flipped", "gone", "longer"])
def test_no_changed_file_of_an_ended_run_passes_for_a_result(run, name, how):
    path = run / name
    if how == "flipped":
        flip(path)
    elif how == "longer":
        path.write_bytes(path.read_bytes() + b"\n")
    else:
        path.unlink()
    with pytest.raises(RecordError):
        Record(run).verify()
    if name != SETTINGS:  # without settings there is no run to show
        (row,) = build_comparison([Record(run)]).rows
        assert row.run.state == "unreadable"


def test_a_whole_run_is_verified_and_sha256sum_agrees(run):
    import subprocess

    Record(run).verify()
    subprocess.run(["sha256sum", "--check", "--strict", MANIFEST], cwd=run, check=True)


@pytest.mark.parametrize("name", [MODEL, STATUS])
@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_model_and_status_are_made_again_from_the_checkpoint_and_that_is_said(run, name, how):
    before = {path: (run / path).read_bytes() for path in (METRICS, MODEL)}
    status = Record(run).status
    flip(run / name) if how == "flipped" else (run / name).unlink()
    listener = Silent()
    assert run_once(run, RUN, listener=listener).state == FINISHED
    assert any(name in line and "made again" in line for line in listener.said)
    assert {path: (run / path).read_bytes() for path in before} == before
    assert Record(run).status == status
    Record(run).verify()


@pytest.mark.parametrize("name", [METRICS, TIMING, ENVIRONMENT])
def test_what_cannot_be_made_again_is_refused_by_name(run, name):
    flip(run / name)
    with pytest.raises(RecordError, match=rf"{name}.*--force"):
        run_once(run, RUN)
    assert run_once(run, RUN, force=True).state == FINISHED
    Record(run).verify()


def test_a_damaged_model_is_loaded_from_the_checkpoint_and_that_is_said(run):
    expected = load(run).state_dict()
    flip(run / MODEL)
    with pytest.warns(UserWarning, match="checkpoint of step 6"):
        found = load(run).state_dict()
    assert all(found[name].equal(tensor) for name, tensor in expected.items())
    for path in (run / CHECKPOINTS).iterdir():
        path.unlink()
    with pytest.raises(RecordError, match="no weights"):
        load(run)


def test_damaged_metrics_do_not_load(run):
    flip(run / METRICS)
    with pytest.raises(RecordError, match=r"metrics\.jsonl"):
        load(run)


def test_random_damage_is_never_taken_for_a_result(run):
    rng = random.Random(1705)
    files = {name: (run / name).read_bytes() for name in SEALED}
    for _ in range(200):
        name = rng.choice(SEALED)
        flip(run / name, rng.randrange(len(files[name])))
        try:
            Record(run).verify()
        except RecordError:
            pass
        else:
            pytest.fail(f"{name} was changed, and nobody noticed")
        (run / name).write_bytes(files[name])
    Record(run).verify()


def test_runs_of_the_first_version_are_read_and_continued(finished, run):
    """They had no manifest, and fewer settings and values of the status."""
    (run / MANIFEST).unlink()
    status = asdict(Record(run).status)
    old = {name: status[name] for name in status if name not in ("sealed", "skipped_steps")}
    (run / STATUS).write_text(json.dumps(old))
    lines = (run / SETTINGS).read_text().splitlines(keepends=True)
    added = (*RUN.task.added_later, *ADDED_LATER)
    kept = [line for line in lines if not line.startswith(added)]
    assert len(kept) == len(lines) - len(added)
    (run / SETTINGS).write_text("".join(kept))
    Record(run).verify()
    assert Record(run).settings == Record(finished).settings
    assert run_once(run, with_steps(RUN, 8, stop_at="never")).step == 8


def test_a_setting_that_did_not_exist_yet_has_its_default_and_not_the_value_of_today():
    """Wikipedia at full size decays its weights, and its first runs did not."""
    whole = to_table(full_settings("wikipedia", "LSTM"))
    assert whole["recipe"]["weight_decay"] > 0
    old = {name: value for name, value in whole["recipe"].items() if name not in ADDED_LATER}
    first = from_table({**whole, "recipe": old}).recipe
    assert all(getattr(first, name) == getattr(Recipe(), name) for name in ADDED_LATER)
    by_hand = {"unit": "LSTM", "task": {"name": "wikipedia"}, "recipe": {"hidden_size": 8}}
    today = from_table(by_hand).recipe
    assert today == replace(full_settings("wikipedia", "LSTM").recipe, hidden_size=8)


def test_a_checkpoint_of_the_first_version_is_continued(run):
    from rda.training import checkpoint

    found, _ = checkpoint.load_latest(run / CHECKPOINTS)
    settings = dict(found.values["settings"])
    for section, names in (("task", RUN.task.added_later), ("recipe", ADDED_LATER)):
        settings[section] = {
            name: value for name, value in settings[section].items() if name not in names
        }
    checkpoint.clear(run / CHECKPOINTS)
    values = {**found.values, "settings": settings}
    checkpoint.save(run / CHECKPOINTS, checkpoint.Checkpoint(6, found.tensors, values))
    assert run_once(run, with_steps(RUN, 8, stop_at="never")).step == 8


class TestOddFiles:
    @pytest.mark.parametrize(
        "odd",
        [
            {"reason": None}, {"best": None}, {"state": 5}, {"step": "3"}, {"step": True},
            {"step": -1}, {"step": 10**400}, {"seconds": "1"}, {"test": {"x": "y"}}, {"test": [1]},
            {"goal_step": 1.5}, {"sealed": "yes"},
        ],
        ids=str,
    )  # fmt: skip
    def test_an_odd_status_is_one_line_that_names_it(self, run, odd):
        (run / MANIFEST).unlink()
        status = {**asdict(Status(state=FINISHED, step=6)), **odd}
        (run / STATUS).write_text(json.dumps(status))
        (name,) = odd
        with pytest.raises(RecordError, match=rf"status\.json cannot be read: {name} is"):
            _ = Record(run).status

    @pytest.mark.parametrize("name", [STATUS, ENVIRONMENT])
    def test_deeply_nested_json_is_one_line(self, run, name):
        (run / name).write_text("[" * 100_000 + "]" * 100_000)
        with pytest.raises(RecordError, match="nested too deeply"):
            Record(run)._json(name)

    @pytest.mark.parametrize(
        "line",
        [
            '{"step": 1, "loss": ' + "9" * 400 + "}", '{"step": 1, "loss": "x"}', "{}", "[1]", "{",
            "[" * 100_000 + "]" * 100_000,
        ],
        ids=["400 digits", "text", "no step", "a list", "half", "nested"],
    )  # fmt: skip
    def test_an_odd_line_of_metrics_is_one_line(self, run, line):
        (run / METRICS).write_text(line + "\n")
        with pytest.raises(RecordError, match=r"metrics\.jsonl line 1"):
            Record(run).curve("loss")
        with pytest.raises(RecordError, match=r"metrics\.jsonl"):
            Record(run).tail("loss", 5)

    def test_an_environment_without_a_command_has_none(self, run):
        (run / ENVIRONMENT).write_text('[{"torch": "2"}]')
        assert Record(run).command is None

    def test_a_settings_file_of_one_endless_key_is_refused_before_it_is_parsed(self, run):
        (run / SETTINGS).write_text(".".join("a" * 100_000) + " = 1\n")
        with pytest.raises(RecordError, match="too large for settings"):
            Record(run)


def test_the_end_of_a_curve_is_read_without_the_rest(run):
    record = Record(run)
    rows = [{"step": s, "loss": s / 7} for s in range(1, 5001)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (run / METRICS).write_text(text + '{"step": 5001, "lo')
    steps, losses = record.curve("loss")
    assert len(steps) == 5000
    for count in (1, 99, 4000, 5000, 9000):
        assert record.tail("loss", count) == (steps[-count:], losses[-count:])
    assert record.tail("accuracy", 10) == ([], [])
    (run / METRICS).write_text("")
    assert record.tail("loss", 5) == ([], [])
