"""A run of somebody else's may hold anything: what does not fit is one line, and cheap."""

import csv
import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from tiny_runs import TINY_RUNS, files_for, run_once, with_steps

from rda.settings import Limits, Recipe
from rda.tasks.own_sequences import OwnSequences
from rda.training import checkpoint, load, running
from rda.training.building import build_stepper
from rda.training.fitting import misfits
from rda.training.manifest import MANIFEST, write_manifest
from rda.training.record import CHECKPOINTS, MODEL, SEALED, SETTINGS, STATUS, Record
from rda.training.running import train
from rda.training.settings import RunSettings
from rda.training.status import FINISHED, RecordError

ADDITION = with_steps(TINY_RUNS["addition"], 3, stop_at="never")
TEXT = with_steps(TINY_RUNS["wikipedia"], 5, stop_at="never")


def trained(folder, settings):
    run_once(folder, settings)
    return folder


@pytest.fixture(scope="module")
def addition(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "addition", ADDITION)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "text", TEXT)


@pytest.fixture(scope="module")
def forecast(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rng = random.Random(0)
    with open(folder / "load.csv", "w", newline="") as file:
        rows = [[m, hour, round(rng.random(), 3)] for m in range(12) for hour in range(9)]
        csv.writer(file).writerows([["machine", "hour", "load"], *rows])
    task = OwnSequences(
        data=str(folder / "load.csv"), sequence="machine", time="hour", features="load",
        problem="forecast", horizon=2,
    )  # fmt: skip
    recipe = Recipe(hidden_size=4, batch_size=4)
    train(RunSettings(task, "GRU", recipe, Limits(2, stop_at="never")), folder / "run")
    return folder / "run"


@pytest.fixture
def copied(tmp_path):
    return lambda run: shutil.copytree(run, tmp_path / run.name)


def seal_again(run):
    (run / MANIFEST).unlink()
    write_manifest(run, SEALED, {})


def with_model(run, change):
    """The run with another model in it, and a manifest that says that it is whole."""
    tensors, values = checkpoint.unpack((run / MODEL).read_bytes())
    (run / MODEL).write_bytes(checkpoint.pack(*change(tensors, values)))
    seal_again(run)
    return run


def with_checkpoint(run, change):
    """The run with another checkpoint in it, whose checksum is right."""
    path = max((run / CHECKPOINTS).glob("*.safetensors"))
    tensors, values = checkpoint.unpack(path.read_bytes())
    path.write_bytes(checkpoint.pack(*change(tensors, values)))
    path.with_suffix(".sha256").write_bytes(checkpoint._checksum(path.name, path.read_bytes()))
    return run


@pytest.mark.parametrize("size", [100_000, 2**31 - 1])
def test_settings_of_a_huge_model_are_compared_with_the_weights_first(copied, addition, size):
    """In a process that may have two gigabytes more than it has: it asked for 120."""
    run = copied(addition)
    written = (run / SETTINGS).read_text()
    (run / SETTINGS).write_text(written.replace("hidden_size = 8\n", f"hidden_size = {size}\n"))
    seal_again(run)
    code = (
        "import resource, sys\n"
        "from rda.training.loading import RecordError, load\n"
        "held = 4096 * int(open('/proc/self/statm').read().split()[0])\n"
        "resource.setrlimit(resource.RLIMIT_AS, (held + (2 << 30),) * 2)\n"
        "try: load(sys.argv[1])\n"
        "except RecordError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, run], capture_output=True, text=True, check=False
    )
    assert done.stdout == "the weights of run addition do not fit its settings\n", done.stderr


def test_training_compares_settings_with_the_checkpoint_before_it_makes_a_model(
    copied, addition, monkeypatch
):
    run = copied(addition)
    written = (run / SETTINGS).read_text()
    (run / SETTINGS).write_text(written.replace("hidden_size = 8\n", "hidden_size = 100000\n"))
    seal_again(run)
    monkeypatch.setattr(running, "build_stepper", pytest.fail)
    with pytest.raises(RecordError, match=r"checkpoint .* made with other settings"):
        running.train(Record(run).settings, run)


@pytest.mark.parametrize("name", ["readout.weight", "unit.weight_ih_l0", "readout.bias"])
@pytest.mark.parametrize("how", ["renamed", "one number", "twice", "one more"])
def test_a_model_with_other_tensors_is_one_line(copied, addition, name, how):
    def change(tensors, values):
        tensor = tensors.pop(name)
        found = {
            "renamed": {f"{name}x": tensor},
            "one number": {name: torch.tensor(1.0)},
            "twice": {name: torch.cat((tensor, tensor))},
            "one more": {name: tensor, "more": tensor.clone()},
        }[how]
        return {**tensors, **found}, values

    with pytest.raises(RecordError, match="weights of run addition do not fit its settings"):
        load(with_model(copied(addition), change))


def other_tensors(name, change):
    return lambda tensors, values: (
        {**{key: tensors[key] for key in tensors if key != name}, **change(tensors[name])}, values
    )  # fmt: skip


def other_value(name, value):
    return lambda tensors, values: (tensors, {**values, name: value})


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("the weights", other_tensors("model.readout.bias", lambda old: {"model.readout": old})),
        ("the best weights", other_tensors("best.readout.bias", lambda old: {})),
        ("adam.exp_avg.readout.bias", other_tensors(
            "adam.exp_avg.readout.bias", lambda old: {"adam.exp_avg.readout.bias": old[:1]}
        )),
        ("adam.exp_avg_sq.unit.weight_hh_l0", other_tensors(
            "adam.exp_avg_sq.unit.weight_hh_l0", lambda old: {}
        )),
        ("adam.step.readout.bias", other_tensors(
            "adam.step.readout.bias", lambda old: {"adam.step.readout.bias": old.long()}
        )),
        ("the state", other_tensors("state.1", lambda old: {"state.x": old})),
        ("state.0", other_tensors("state.0", lambda old: {"state.0": old[:, :1]})),
        ("state.1", other_tensors("state.1", lambda old: {"state.1": old.long()})),
        ("generator", other_tensors("generator", lambda old: {})),
        ("seconds", other_value("seconds", "1")),
        ("evaluated_step", other_value("evaluated_step", -1)),
        ("best", other_value("best", [1])),
        ("best_step", other_value("best_step", 1e300)),
        ("does not say on what device", other_value("device", None)),
        ("not one of its step", other_value("step", 10**30)),
        ("other settings", other_value("settings", {"task": 5})),
        (r"metrics\.jsonl is not as it was written", other_value("metrics", {"bytes": -1})),
        (r"timing\.jsonl is not as it was written", other_value("timing", [3])),
    ],
)  # fmt: skip
def test_a_checkpoint_with_a_right_checksum_that_does_not_fit_is_one_line(
    copied, text, what, change
):
    """Adam's fused step would read and write beside tensors that are too small."""
    run = with_checkpoint(copied(text), change)
    with pytest.raises(RecordError, match=rf"^[^\n]*{what}[^\n]*--force starts over$"):
        run_once(run, with_steps(TEXT, 8, stop_at="never"))


@pytest.mark.parametrize("unit", ["RDA-exp-tanh", "LSTM", "GRU"])
def test_an_engine_that_serves_its_own_sizes_alone_is_not_asked_for_another(tmp_path, unit):
    """A run in `grid`, which computes in bfloat16 alone, could not be continued."""
    settings = replace(TEXT, unit=unit)
    found, _ = checkpoint.load_latest(trained(tmp_path / "run", settings) / CHECKPOINTS)
    stepper = build_stepper(settings, torch.device("cpu"), files=files_for(settings))
    stepper.model.unit.engine = "grid"  # which serves nothing here
    assert misfits(stepper, found.tensors, found.values) == []
    assert stepper.model.unit.engine == "grid"


def test_an_order_of_items_that_are_not_there_is_refused(tmp_path, forecast, copied):
    def change(tensors, values):
        return {**tensors, "task.order": tensors["task.order"] + 1}, values

    run = with_checkpoint(copied(forecast), change)
    settings = replace(Record(run).settings, limits=Limits(4, stop_at="never"))
    with pytest.raises(RecordError, match="not an order of"):
        train(settings, run, device="cpu")


ODD_FACTS = [
    ("problem", "other"), ("target", []), ("target", [0]), ("horizon", float("inf")),
    ("horizon", 3), ("means", []), ("means", [10**400]), ("classes", [{}]), ("drifting", None),
    ("preparation", []), ("preparation", {"channels": []}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), ODD_FACTS, ids=str)
def test_what_a_model_says_of_its_data_is_looked_at_before_it_is_used(
    copied, forecast, name, value
):
    def change(tensors, values):
        facts = {**values["data"]["sequences"], name: value}
        return tensors, {**values, "data": {**values["data"], "sequences": facts}}

    with pytest.raises(RecordError, match="knew of its data cannot be read"):
        load(with_model(copied(forecast), change))


@pytest.mark.parametrize("name", ["channels", "means", "deviations", "masked"])
def test_numbers_that_are_missing_for_a_channel_are_noticed(copied, forecast, name):
    def change(tensors, values):
        facts = values["data"]["sequences"]["preparation"]
        facts[name] = facts[name][1:]
        return tensors, values

    with pytest.raises(RecordError, match=r"cannot be read|does not fit"):
        load(with_model(copied(forecast), change))


def test_a_state_that_there_is_not_is_one_line(copied, addition):
    run = copied(addition)
    status = json.loads((run / STATUS).read_text())
    assert status["state"] == FINISHED
    (run / STATUS).write_text(json.dumps({**status, "state": "A" * 100_000}))
    with pytest.raises(RecordError, match=r"state is \"A+\.\.\.$"):
        _ = Record(run).status


def test_values_without_names_are_no_checkpoint():
    for values in ([], 1, None):
        with pytest.raises(checkpoint.CheckpointError, match="its values have no names"):
            checkpoint.unpack(checkpoint.pack({}, values))
