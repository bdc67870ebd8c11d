"""People's own sequences as a task: every problem is learned, recorded, continued and used."""

import csv
from dataclasses import replace

import numpy as np
import pandas
import pytest
import torch
from made_data import waves, write_csv, write_npz, write_ts
from test_loop import assert_same_run
from tiny_runs import run_once

import rda
from rda.cli import main
from rda.sequences.dataset import Channel, Sequences, Target, from_arrays
from rda.sequences.stored import hold
from rda.tasks import TaskError
from rda.training.building import build_stepper
from rda.training.settings import settings_for
from rda.training.status import RecordError

CPU = torch.device("cpu")


def settings(data, unit="RDA-exp-tanh", **changes):
    changes = {"steps": 150, "hidden_size": 16, "batch_size": 16, "learning_rate": 0.01} | changes
    return settings_for("sequences", unit, False, {"data": str(data), **changes})


def of_steps(kind):
    """A target at every step: whether the first channel rises, or the sum of both channels."""
    found = waves(60)
    rises = np.diff(found.values[:, 0], prepend=0) > 0
    if kind == "labels":
        target = Target("rises", rises.astype(float), ("no", "yes"), True)
    else:
        target = Target("sum", found.values.sum(1), (), True)
    return replace(found, target=target)


def a_number():
    found = waves(60)
    sums = np.array([piece[:, 0].sum() for piece in np.split(found.values, found.starts[1:])])
    return replace(found, target=Target("sum", 1000 + 50 * sums))


def a_series():
    t = np.arange(400.0)
    return from_arrays([20 + 5 * np.sin(2 * np.pi * t / 12)], channels=["load"])


class TestEachProblem:
    def trained(self, folder, sequences, **changes):
        """How good it is on the test part, and the model."""
        asked = settings(hold(sequences), **changes)
        status = run_once(folder, asked)
        return asked.task, status.test, rda.load(folder)

    def test_a_label_for_each_sequence(self, tmp_path):
        task, test, model = self.trained(tmp_path, waves(60))
        assert (task.problem, task.metric) == ("label", "accuracy")
        assert test["test_accuracy"] > 0.9
        answers = model.predict(waves(20, seed=5))
        assert (answers == np.array(["fast", "slow"] * 10)).mean() > 0.9
        chances = model.predict_proba(waves(20, seed=5))
        np.testing.assert_allclose(chances.sum(1), 1.0)

    def test_a_number_for_each_sequence(self, tmp_path):
        task, test, model = self.trained(tmp_path, a_number())
        assert (task.problem, task.metric) == ("number", "error")
        spread = np.abs(a_number().target.values - a_number().target.values.mean()).mean()
        assert test["test_error"] < spread / 2
        assert np.abs(model.predict(a_number()) - a_number().target.values).mean() < spread / 2

    @pytest.mark.parametrize("kind", ["labels", "numbers"])
    def test_an_answer_for_every_step(self, tmp_path, kind):
        task, test, model = self.trained(tmp_path, of_steps(kind))
        assert task.problem == kind
        answers = model.predict(of_steps(kind))
        assert len(answers) == len(of_steps(kind).values)
        if kind == "labels":
            assert test["test_accuracy"] > 0.8
        else:
            assert test["test_error"] < 0.2 * of_steps(kind).target.values.std()

    def test_a_forecast_beats_the_last_value(self, tmp_path):
        task, test, model = self.trained(tmp_path, a_series(), horizon=3, window=60)
        assert (task.problem, task.metric) == ("forecast", "error")
        series = a_series().values[:, 0]
        last = np.mean([np.abs(series[ahead:] - series[:-ahead]).mean() for ahead in (1, 2, 3)])
        assert test["test_error"] < last / 4
        ahead = model.predict(a_series())
        assert ahead.shape == (400, 3, 1)
        t = 400 + np.arange(3)
        np.testing.assert_allclose(ahead[-1, :, 0], 20 + 5 * np.sin(np.pi * t / 6), atol=1.0)

    @pytest.mark.parametrize("unit", ["RDA-sigmoid-id", "RWA", "LSTM", "GRU"])
    def test_every_unit_can_be_trained_and_used(self, tmp_path, unit):
        _, test, model = self.trained(tmp_path, waves(60), unit=unit, steps=3)
        assert 0.0 <= test["test_accuracy"] <= 1.0
        assert set(model.predict(waves(5))) <= {"fast", "slow"}


def test_a_run_is_the_same_through_every_kind_of_file(tmp_path):
    sequences = waves(40, missing=0.05)
    files = [
        write_csv(tmp_path / "a.csv", sequences),
        write_ts(tmp_path / "a.ts", sequences),
        write_npz(tmp_path / "a.npz", sequences),
        hold(sequences),
    ]
    table = pandas.read_csv(files[0])
    table.to_parquet(tmp_path / "a.parquet")
    files += [tmp_path / "a.parquet", hold(rda.sequences.read(table))]
    steppers = [build_stepper(settings(file), CPU) for file in files]
    rows = []
    for stepper in steppers:
        for _ in range(3):
            stepper.step()
            (row,) = stepper.fetch()
        rows.append((dict(row), stepper.evaluate("test")))
    assert rows[1:] == rows[:-1]


def test_a_stopped_run_goes_on_bit_by_bit_and_not_with_other_data(tmp_path):
    path = write_csv(tmp_path / "a.csv", waves(40))
    run_once(tmp_path / "whole", settings(path, steps=12))
    run_once(tmp_path / "parts", settings(path, steps=12, stop_at="never"))
    shorter = settings(path, steps=12)
    run_once(tmp_path / "cut", replace(shorter, limits=replace(shorter.limits, steps=5)))
    run_once(tmp_path / "cut", shorter)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    write_csv(path, waves(40, seed=9))
    with pytest.raises(RecordError, match="has changed since run"):
        run_once(tmp_path / "cut", replace(shorter, limits=replace(shorter.limits, steps=20)))


def test_padding_and_missing_answers_change_nothing():
    """Losses and scores are means over the answers that there are."""
    sequences = of_steps("numbers")
    holes = sequences.target.values.copy()
    holes[::3] = np.nan
    sequences = replace(sequences, target=replace(sequences.target, values=holes))
    stepper = build_stepper(settings(hold(sequences), batch_size=7), CPU)
    whole = stepper.evaluate("test")
    stepper.recipe = replace(stepper.recipe, batch_size=1)
    assert stepper.evaluate("test") == pytest.approx(whole, rel=1e-5)


def test_other_data_is_aligned_by_the_names_of_its_columns(tmp_path):
    generator = np.random.default_rng(0)
    colours = generator.integers(0, 3, 300).astype(float)
    values = np.stack([generator.normal(size=300), colours], 1)
    channels = Channel("x"), Channel("colour", ("blue", "green", "red"))
    lengths = np.full(60, 5, dtype=np.int64)
    target = Target("label", (colours[4::5] == 2).astype(float), ("no", "yes"))
    sequences = Sequences(values, lengths, channels, tuple(map(str, range(60))), target)
    run_once(tmp_path, settings(hold(sequences)))
    model = rda.load(tmp_path)
    expected = model.predict(sequences)
    other = Channel("colour", ("amber", "red", "green", "blue"))
    places = np.array([3.0, 2.0, 1.0])[colours.astype(int)]
    turned = replace(
        sequences, values=np.stack([places, values[:, 0]], 1), channels=(other, Channel("x"))
    )
    np.testing.assert_array_equal(model.predict(turned), expected)
    with pytest.raises(ValueError, match="no column 'colour'"):
        model.predict(replace(sequences, values=values[:, :1], channels=(Channel("x"),)))


def test_what_cannot_be_learned_is_refused_in_one_line(tmp_path):
    with pytest.raises(TaskError, match="sequences needs data"):
        settings_for("sequences", "RWA", False, {})
    with pytest.raises(TaskError, match="three sequences or more"):
        build_stepper(settings(hold(from_arrays([[1.0, 2.0]], [3.0]))), CPU)
    one_class = replace(waves(20), target=Target("label", np.zeros(20), ("only",)))
    with pytest.raises(TaskError, match="one class"):
        build_stepper(settings(hold(one_class)), CPU)
    nothing = replace(waves(20), target=Target("label", np.full(20, np.nan), ("a", "b")))
    with pytest.raises(TaskError, match="no class has three"):
        build_stepper(settings(hold(nothing)), CPU)
    with pytest.raises(TaskError, match="no answer"):
        build_stepper(settings(hold(nothing), split="random"), CPU)


def told(sequences, **changes):
    return "\n".join(build_stepper(settings(hold(sequences), **changes), CPU).source.told())


def test_what_was_understood_is_told_first():
    assert told(waves(60)).splitlines() == [
        "60 sequences of 8 to 19 steps, 2 columns: a, b",
        "to be learned: a label for each sequence, label: fast (30), slow (30)",
        "parts: 44 train, 8 validate, 8 test",
    ]
    assert "missing or infinite: a (" in told(waves(60, missing=0.1))
    labels = np.array([0.0] * 50 + [1.0] * 10)
    assert "the classes are uneven, 50 to 10" in told(
        replace(waves(60), target=Target("label", labels, ("a", "b")))
    )
    assert "later ones validate" in told(a_series())


@pytest.mark.parametrize("sequences", [waves(60), of_steps("numbers"), of_steps("labels")])
def test_a_column_that_gives_the_answer_away_is_warned_of(sequences):
    answers = sequences.target.values
    if not sequences.target.every_step:
        answers = np.repeat(answers, sequences.lengths)
    values = np.concatenate([sequences.values, 3 - 2 * answers[:, None]], 1)
    leaky = replace(sequences, values=values, channels=(*sequences.channels, Channel("result")))
    assert f"warning: result tells {sequences.target.name} exactly" in told(leaky)
    assert "warning" not in told(sequences)


def test_the_command_trains_and_predicts(tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv", waves(40))
    runs = ["--runs-dir", str(tmp_path / "runs")]
    sizes = ["--steps", "5", "--hidden-size", "4"]
    assert main(["train", "--data", str(path), "GRU", *sizes, "--name", "mine", *runs]) == 0
    assert main(["predict", "mine", "--data", str(path), *runs, "-o", str(tmp_path / "o.csv")]) == 0
    with (tmp_path / "o.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["sequence", "label", "p(fast)", "p(slow)"]
    assert [row[0] for row in rows[1:]] == [f"s{i}" for i in range(40)]
    capsys.readouterr()
    assert main(["predict", "mine", "--data", str(tmp_path / "none.csv"), *runs]) == 2
    assert "there is no file" in capsys.readouterr().err
