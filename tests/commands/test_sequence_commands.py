"""rda evaluate, inspect and predict on sequences of one's own, as a person uses them."""

import csv
import json
import re

import numpy as np
import pandas
import pytest
from made_data import waves, write_csv

import rda
from rda.analysis.inspection import read
from rda.analysis.looking import inspect_row
from rda.choosing.familiar import UNKNOWN, familiar
from rda.cli import main
from rda.commands.scoring import SAME_DATA
from rda.sequences import SequencesError
from rda.sequences.seen import seen_sequences
from rda.training.intervals import backtest_of, intervals_of
from rda.training.record import Record

SIZES = ["--hidden-size", "8", "--threads", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("sequences")
    write_csv(found / "train.csv", waves(60))
    write_csv(found / "other.csv", waves(24, seed=5))
    runs = ["--runs-dir", str(found / "runs")]
    label = ["train", "--data", str(found / "train.csv"), "RDA-exp-tanh", "--name", "label"]
    assert main([*label, "--steps", "150", "--learning-rate", "0.01", *SIZES, *runs]) == 0
    t = np.arange(360)
    series = 5 + 0.02 * t + np.sin(2 * np.pi * t / 12)
    rows = "".join(f"{day},{value:.6f}\n" for day, value in enumerate(series))
    (found / "series.csv").write_text("t,load\n" + rows)
    noise = np.random.default_rng(0).normal(size=360).cumsum()
    rows = "".join(f"{day},{value:.6f}\n" for day, value in enumerate(noise))
    (found / "drifting.csv").write_text("t,load\n" + rows)
    drifting = ["train", "--data", str(found / "drifting.csv"), "GRU", "--name", "drifting"]
    assert main([*drifting, "--steps", "3", "--horizon", "2", *SIZES, *runs]) == 0
    line = ["train", "--data", str(found / "series.csv"), "RWA", "--name", "series"]
    more = ["--horizon", "3", "--window", "40", "--steps", "60", "--learning-rate", "0.01"]
    assert main([*line, *more, *SIZES, *runs]) == 0
    lstm = ["train", "--data", str(found / "train.csv"), "LSTM", "--steps", "3", "--name", "lstm"]
    assert main([*lstm, *SIZES, *runs]) == 0
    return found


def run(folder, *line):
    return main([*line, "--runs-dir", str(folder / "runs")])


def test_a_model_is_scored_on_other_data(folder, capsys):
    page = folder / "page.html"
    assert (
        run(folder, "evaluate", "label", "--data", str(folder / "other.csv"), "--page", str(page))
        == 0
    )
    told = " ".join(capsys.readouterr().out.split())
    found = re.search(r"accuracy of label: ([\d.]+) \(.*\) on 24 answers of 24 sequences", told)
    assert float(found[1]) > 0.9
    text = page.read_text()
    for words in ("RDA-exp-tanh on other.csv", "Which classes are taken for which", "fast", "slow"):
        assert words in text
    assert SAME_DATA not in told
    assert SAME_DATA not in text


@pytest.mark.parametrize(("name", "data"), [("label", "train.csv"), ("series", "series.csv")])
def test_a_score_on_the_training_data_says_so(name, data, folder, capsys, tmp_path):
    page = tmp_path / "page.html"
    line = ["evaluate", name, "--data", str(folder / data), "--page", str(page)]
    assert run(folder, *line) == 0
    assert SAME_DATA in " ".join(capsys.readouterr().out.split())
    assert SAME_DATA in page.read_text()


def test_classes_that_training_has_not_seen_count_as_wrong(folder, capsys, tmp_path):
    text = (folder / "other.csv").read_text().replace("slow", "still")
    (tmp_path / "odd.csv").write_text(text)
    page = tmp_path / "page.html"
    assert (
        run(folder, "evaluate", "label", "--data", str(tmp_path / "odd.csv"), "--page", str(page))
        == 0
    )
    told = " ".join(capsys.readouterr().out.split())
    assert "12 answers of classes that training has not seen" in told
    assert float(re.search(r"label: ([\d.]+)", told)[1]) <= 0.5
    assert "<td>still</td>" in page.read_text()


def test_a_forecast_is_scored_beside_labels_that_nobody_asked_for(tmp_path, capsys):
    rows = [f"m{m},{hour},{(m * hour) % 5},{'ab'[m % 2]}\n" for m in range(12) for hour in range(9)]
    (tmp_path / "load.csv").write_text("machine,hour,load,label\n" + "".join(rows))
    data = ["--data", str(tmp_path / "load.csv")]
    roles = ["--sequence", "machine", "--time", "hour", "--features", "load"]
    more = ["--problem", "forecast", "--horizon", "2", "--steps", "2", "--name", "ahead", *SIZES]
    assert run(tmp_path, "train", *data, "GRU", *roles, *more) == 0
    assert run(tmp_path, "evaluate", "ahead", *data, "--page", str(tmp_path / "page.html")) == 0
    assert "mean absolute error of load" in " ".join(capsys.readouterr().out.split())


def test_a_forecast_is_scored_and_has_intervals(folder, capsys, tmp_path):
    page = tmp_path / "page.html"
    series = str(folder / "series.csv")
    assert run(folder, "evaluate", "series", "--data", series, "--page", str(page)) == 0
    assert "mean absolute error of load" in " ".join(capsys.readouterr().out.split())
    assert run(folder, "predict", "series", "--data", series) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert rows[0] == ["sequence", "ahead", "load", "load low", "load high"]
    assert [row[1] for row in rows[1:]] == ["1", "2", "3"]
    for row in rows[1:]:
        value, low, high = map(float, row[2:])
        assert low < value < high


def test_intervals_hold_what_they_promise_and_are_kept_with_the_run(folder):
    record = Record(folder / "runs" / "series")
    margins = intervals_of(record)
    assert margins.shape == (3, 1)
    assert json.loads((record.folder / "intervals.json").read_text())["level"] == 0.9
    (found,) = backtest_of(record)
    assert found.column == "load"
    assert len(found.true) == len(found.predicted) == len(found.low) == 54
    assert found.made_at == list(range(0, 54, 3))
    widths = (np.array(found.high) - found.low) / 2
    np.testing.assert_allclose(widths, np.resize(margins[:, 0], 54), rtol=1e-9)


def predict_with_other_intervals(folder, change):
    """The command beside a changed intervals.json, which is then as it was."""
    path = folder / "runs" / "series" / "intervals.json"
    before = path.read_text()
    path.write_text(json.dumps(change(json.loads(before))))
    try:
        assert run(folder, "predict", "series", "--data", str(folder / "series.csv")) == 0
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda kept: {**kept, "margins": [[1000.0]] * 3}, "is not as it was written"),
        (lambda kept: {**kept, "margins": [[-1.0]] * 3}, "is not as it was written"),
        (lambda kept: {"step": kept["step"], "margins": [[-1.0]] * 3}, "rows of numbers from 0"),
        (lambda kept: {"step": kept["step"], "margins": [[1.0]] * 2}, "are of other columns"),
        (lambda kept: [], "cannot be read: it is not an object"),
    ],
)
def test_intervals_in_doubt_are_not_written_out(folder, capsys, change, said):
    predict_with_other_intervals(folder, change)
    out, told = capsys.readouterr()
    assert out.splitlines()[0] == "sequence,ahead,load"
    assert said in told
    assert told.count("\n") == 1


def test_intervals_of_earlier_versions_are_called_unsealed(folder, capsys):
    def without_seal(kept):
        return {name: kept[name] for name in ("step", "level", "margins")}

    predict_with_other_intervals(folder, without_seal)
    out, told = capsys.readouterr()
    assert out.splitlines()[0] == "sequence,ahead,load,load low,load high"
    assert "the intervals of run series are unsealed" in told
    assert told.count("\n") == 1


def test_a_sequence_of_ones_own_is_looked_at(folder, capsys):
    line = ["inspect", "label", "--data", str(folder / "other.csv"), "--row", "3"]
    assert run(folder, *line) == 0
    told = capsys.readouterr().out
    assert "sequence s3 of" in told
    assert "the model says label: slow" in told
    found = read(folder / "runs" / "label")
    assert found.sequence == "s3"
    assert set(found.inputs) == {"a", "b"}
    assert len(found.inputs["a"]) == found.steps == len(found.final_share)
    assert sum(found.final_share) == pytest.approx(1.0, abs=1e-3)
    assert (folder / "runs" / "label" / "inspection.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["inspect", "label", "--data", "other.csv", "--row", "24"], "row should be from 0 to 23"),
        (["inspect", "lstm", "--data", "other.csv"], "LSTM has no attention"),
        (["evaluate", "label"], "needs a text, --file other.txt, or sequences, --data FILE"),
        (["evaluate", "label", "--data", "other.csv", "--file", "x"], "needs a text"),
        (["evaluate", "--data", "other.csv"], "needs a run of rda train --data"),
        (["evaluate", "label", "--data", "none.csv"], "there is no file none.csv"),
        (["evaluate", "label", "--data", "series.csv"], "unknown column 'label'"),
        (["evaluate", "none", "--data", "other.csv"], "unknown run 'none'"),
    ],
)
def test_what_cannot_be_done_is_one_line(folder, capsys, monkeypatch, line, message):
    monkeypatch.chdir(folder)
    assert run(folder, *line) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_rows_are_looked_at_from_python_too(folder):
    found = inspect_row(folder / "runs" / "label", folder / "other.csv", 1)
    assert found.sequence == "s1"
    with pytest.raises(SequencesError, match="row should be from 0"):
        inspect_row(folder / "runs" / "label", folder / "other.csv", -1)


def evaluated(folder, capsys, tmp_path, name, data):
    line = ["evaluate", name, "--data", str(data), "--page", str(tmp_path / "page.html")]
    assert run(folder, *line) == 0
    return " ".join(capsys.readouterr().out.split())


def rows_of(path):
    header, *rows = path.read_text().splitlines()
    return header, rows


def test_sequences_of_training_among_others_are_counted_and_the_others_scored(
    folder, capsys, tmp_path
):
    """Most of training and as many others, under other names and in another order."""
    header, rows = rows_of(folder / "train.csv")
    _, others = rows_of(folder / "other.csv")
    mixed = tmp_path / "mixed.csv"
    rows = [f"new{row}" for row in others] + [f"old{row}" for row in rows]
    mixed.write_text("\n".join([header, *rows]))
    told = evaluated(folder, capsys, tmp_path, "label", mixed)
    assert "52 of 84 sequences" in (tmp_path / "page.html").read_text()
    alone = evaluated(folder, capsys, tmp_path, "label", folder / "other.csv")
    assert "on 84 answers of 84 sequences" in told
    # 8 of the 60 were for the test.
    assert re.search(r"52 of 84 sequences were part of its training; on the 32 others: acc", told)
    assert "part of its training" not in alone


def test_the_very_data_of_training_is_scored_on_its_test_part(folder, capsys, tmp_path):
    told = evaluated(folder, capsys, tmp_path, "label", folder / "train.csv")
    found = re.search(r"52 of 60 sequences were part of its training; on the 8 others: ", told)
    tested = Record(folder / "runs" / "label").status.test["test_accuracy"]
    assert told[found.end() :].startswith(f"accuracy {tested:.4g} (")


def test_a_sequence_of_training_alone_is_said_to_be_one(folder, capsys, tmp_path):
    header, rows = rows_of(folder / "train.csv")
    model = rda.load(folder / "runs" / "label")
    read = model.read(folder / "train.csv", with_answers=True)
    names = [read.ids[i] for i in seen_sequences(read, *model.facts["seen"])[:3]]
    some = tmp_path / "some.csv"
    some.write_text("\n".join([header, *(row for row in rows if row.split(",")[0] in names)]))
    told = evaluated(folder, capsys, tmp_path, "label", some)
    assert told.startswith("accuracy of label: ")
    assert "All 3 sequences were part of its training" in told


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((0, 360), "At least 306 of 360 steps were part of its training; after them: mean abs"),
        ((37, 340), "At least 258 of 303 steps were part of its training; after them: mean abs"),
        ((0, 100), r"96 of 100 steps were part of its training; after them: nothing to score"),
        ((306, 360), "mean absolute error of load"),
    ],
)
def test_steps_of_training_are_recognised_wherever_a_series_is_cut(
    folder, capsys, tmp_path, steps, said
):
    header, rows = rows_of(folder / "drifting.csv")
    cut = tmp_path / "cut.csv"
    cut.write_text("\n".join([header, *rows[slice(*steps)]]))
    told = evaluated(folder, capsys, tmp_path, "drifting", cut)
    assert re.search(said, told)
    assert ("part of its training" in told) == (steps != (306, 360))


def test_of_a_run_of_an_earlier_version_it_is_said_not_to_be_known(folder, monkeypatch):
    model = rda.load(folder / "runs" / "label")
    other = model.read(folder / "other.csv", with_answers=True)
    assert familiar(model, other, is_same=False) == []
    model.facts = {name: fact for name, fact in model.facts.items() if name != "seen"}
    assert familiar(model, other, is_same=False) == [UNKNOWN]
    assert familiar(model, other, is_same=True) == []


@pytest.fixture(scope="module")
def hostile(folder):
    """Sequences with names that are lines, formulas and commands to a terminal."""
    sequences = waves(24, seed=5)
    names = [*("a\rb", "=1+1", "-2", "\x1b[31mred", "\u202eabc"), *map(str, range(19))]
    path = folder / "hostile.npz"
    np.savez(
        path, X=sequences.values, lengths=sequences.lengths, channels=["a", "b"], ids=names
    )  # fmt: skip
    return path, names


def test_predictions_are_read_back_one_row_for_each_sequence(folder, hostile, tmp_path, capsys):
    data, names = hostile
    path = tmp_path / "predicted.csv"
    assert run(folder, "predict", "label", "--data", str(data), "-o", str(path)) == 0
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows[1:]] == [names[0], "'=1+1", *names[2:]]
    assert len(pandas.read_csv(path)) == 24


def test_no_name_commands_the_terminal(folder, hostile, capsys):
    data, _ = hostile
    assert run(folder, "predict", "label", "--data", str(data)) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 25
    assert "\u241b[31mred," in said
    for row in ("0", "3", "4"):
        assert run(folder, "inspect", "label", "--data", str(data), "--row", row) == 0
        said += capsys.readouterr().out
    assert not {"\x1b", "\r"} & set(said)


def test_no_column_or_class_commands_the_terminal(folder, capsys, tmp_path):
    text = (folder / "train.csv").read_text().replace("slow", "\x1b[31mslow")
    path = tmp_path / "red.csv"
    path.write_text(text.replace(",label", ",the \x1b[31mlabel"))
    line = ["train", "--data", str(path), "--target", "the \x1b[31mlabel", "RWA", "--name", "red"]
    assert run(folder, *line, "--steps", "2", *SIZES) == 0
    page = str(tmp_path / "page.html")
    assert run(folder, "evaluate", "red", "--data", str(path), "--page", page) == 0
    assert run(folder, "predict", "red", "--data", str(path)) == 0
    assert run(folder, "inspect", "red", "--data", str(path)) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
