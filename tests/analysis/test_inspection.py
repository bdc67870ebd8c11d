"""rda inspect: a trained unit reads one sequence."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from rda.analysis.inspection import STEPS_SHOWN, read
from rda.analysis.looking import inspect_run, keep_inspection
from rda.cli import main
from rda.report.inspection import render_inspection
from rda.settings import Limits, Recipe
from rda.tasks.addition import Addition
from rda.tasks.alternating import Alternating
from rda.tasks.classify_length import ClassifyLength
from rda.tasks.copying import MultiCopy
from rda.training import running
from rda.training.record import INSPECTION, Record
from rda.training.settings import RunSettings, small_settings, with_changes
from rda.training.status import RecordError
from rda.training.thinning import thin

TINY = Recipe(hidden_size=6, batch_size=3)
LIMITS = Limits(steps=2, stop_at="never")


def trained(folder, task, unit="RDA-exp-tanh", **recipe):
    settings = RunSettings(task, unit, replace(TINY, **recipe), LIMITS)
    running.train(settings, folder, device="cpu")
    return folder


def test_symbols_answers_and_what_the_units_did(tmp_path):
    task = MultiCopy(copies=2, symbols=2, alphabet=3)
    found = inspect_run(trained(tmp_path / "run", task))
    assert found.steps == 12
    assert found.symbols[2:4] == ["\u00b7", "?"]
    assert len(found.targets) == len(found.answers) == 12
    assert 0 <= found.accuracy <= 1
    assert found.new_share[0] == 1.0  # the first step replaces nothing
    assert all(0 < value < 1 for value in found.discount)
    assert len(found.discount_of_units) == len(found.new_share_of_units) == 6
    assert inspect_run(tmp_path / "run", seed=2).symbols != found.symbols


def test_numbers_have_no_symbols_and_long_sequences_are_cut(tmp_path):
    found = inspect_run(trained(tmp_path / "run", Addition(length=STEPS_SHOWN + 30), "RWA"))
    assert (found.symbols, found.targets, found.accuracy) == ([], [], None)
    assert found.steps == STEPS_SHOWN + 30
    assert {len(row) for row in found.discount_of_units} == {STEPS_SHOWN}
    assert set(found.discount) == {1.0}  # an RWA forgets nothing
    assert render_inspection(found).startswith(b"\x89PNG")


def test_a_sequence_ends_where_it_ends(tmp_path):
    folder = trained(tmp_path / "run", ClassifyLength(longest=9), learn_initial_state=True)
    assert {inspect_run(folder, seed).steps for seed in range(8)} > {1}
    assert max(inspect_run(folder, seed).steps for seed in range(8)) <= 9


def test_a_unit_without_attention_is_refused(tmp_path):
    with pytest.raises(RecordError, match="GRU has no attention"):
        inspect_run(trained(tmp_path / "run", Addition(length=5), "GRU"))


def test_what_the_first_run_of_a_unit_looked_at_is_kept(tmp_path):
    for unit, seed, kept in (("RWA", 0, True), ("RWA", 1, False), ("GRU", 0, False)):
        folder = trained(tmp_path / f"{unit}{seed}", Alternating(length=4), unit, seed=seed)
        keep_inspection(folder)
        assert (read(folder) is not None) == kept


def test_of_multiple_sequence_copy_only_that_with_the_usual_settings_is_kept(tmp_path):
    usual = replace(small_settings("multicopy", "RWA"), limits=Limits(steps=1))
    for name, changes in (("usual", {}), ("other", {"learning_rate": 0.01})):
        folder = tmp_path / name
        running.train(with_changes(usual, changes), folder, device="cpu")
        keep_inspection(folder)
        assert (read(folder) is not None) == (name == "usual")


class TestCommand:
    def test_it_prints_and_draws(self, tmp_path, capsys):
        trained(tmp_path / "run", MultiCopy(copies=2, symbols=2, alphabet=3))
        assert main(["inspect", "run", "--runs-dir", str(tmp_path)]) == 0
        told = capsys.readouterr().out
        assert "one sequence of 12 steps" in told
        assert "right answers" in told
        assert (tmp_path / "run" / "inspection.png").stat().st_size > 10_000
        assert read(tmp_path / "run") == inspect_run(tmp_path / "run")

    def test_a_record_without_weights_shows_what_was_kept(self, tmp_path, capsys):
        for name in ("kept", "bare"):
            trained(tmp_path / name, Alternating(length=4), "RWA")
        keep_inspection(tmp_path / "kept")
        for name in ("kept", "bare"):
            thin(tmp_path / name)
        assert main(["inspect", "kept", "--runs-dir", str(tmp_path)]) == 0
        assert "one sequence of 4 steps" in capsys.readouterr().out
        assert Record(tmp_path / "kept").damaged() == []
        old = json.loads((tmp_path / "kept" / INSPECTION).read_text())
        (tmp_path / "kept" / INSPECTION).write_text(json.dumps({**old, "steps": 3}))
        assert main(["inspect", "kept", "--runs-dir", str(tmp_path)]) == 2
        assert "inspection.json is missing or changed" in capsys.readouterr().err
        assert main(["inspect", "bare", "--runs-dir", str(tmp_path)]) == 2
        assert "run bare was recorded without its weights" in capsys.readouterr().err

    def test_a_run_that_is_not_there_is_named(self, tmp_path, capsys):
        assert main(["inspect", "nothing", "--runs-dir", str(tmp_path)]) == 2
        assert "no run 'nothing'" in capsys.readouterr().err


def test_numbers_of_an_earlier_version_are_called_unsealed(tmp_path, capsys):
    folder = trained(tmp_path / "run", Alternating(length=4), "RWA")
    thin(folder)
    kept = asdict(inspect_run(trained(tmp_path / "other", Alternating(length=4), "RWA")))
    (folder / INSPECTION).write_text(json.dumps(kept))
    assert main(["inspect", "run", "--runs-dir", str(tmp_path)]) == 0
    assert "inspection.json (unsealed: " in capsys.readouterr().out


def test_a_file_that_is_something_else_is_named(tmp_path):
    assert read(tmp_path) is None
    steps = ("discount", "new_share", "highest_attention", "highest_weight")
    tables = {"discount_of_units": [[1.0]], "new_share_of_units": [[1.0]]}
    whole: dict[str, Any] = {"task": "copy", "unit": "RWA", **tables}
    whole |= {name: [] for name in ("symbols", "targets", "answers")}
    whole |= {name: [0.5] for name in steps}
    (tmp_path / INSPECTION).write_text(json.dumps(whole))
    assert read(tmp_path).steps == 1
    changes: list[dict[str, Any]] = [
        {"task": 1}, {"discount": []}, {"discount": "x"}, {"discount": ["x"]}, {"targets": [1]},
        {"new_share": [0.5, 0.5]}, {"discount_of_units": [0.5]}, {"inputs": []}, {"symbols": [1]},
    ]  # fmt: skip
    others = [json.dumps({**whole, **change}) for change in changes]
    for content in ("{", "[]", json.dumps({"task": "copy"}), *others):
        (tmp_path / INSPECTION).write_text(content)
        with pytest.raises(RecordError, match=r"inspection\.json cannot be read"):
            read(tmp_path)
