"""A forecast of columns in different units: persons beside thousands of millions."""

import numpy as np
import pytest
import torch

from rda.choosing.entries import entry_of
from rda.cli import main
from rda.report.reading import read_run
from rda.sequences.understanding import Understanding
from rda.training.outcomes import outcomes_of
from rda.training.record import Record
from rda.training.running import train
from rda.training.settings import settings_for

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    noise = np.random.default_rng(0).normal(size=(300, 2)).cumsum(0) * [1.0, 1e6]
    rows = [f"{t},{a!r},{b!r}" for t, (a, b) in enumerate(noise.tolist())]
    (folder / "two.csv").write_text("\n".join(["t,few,many", *rows]))
    line = ["compare", "--data", str(folder / "two.csv"), "GRU", "--horizon", "2", "--sizes"]
    line += ["", "--steps", "4", "--hidden-size", "4", "--rates", "0.01", "--seeds", "1"]
    line += ["--threads", "1", "--runs-dir", str(folder), "--name", "both"]
    assert main(line) == 0
    return folder


def test_each_has_an_error_of_its_own_and_the_score_favours_none(compared):
    page = (compared / "both" / "index.html").read_text()
    for words in ("test scaled error", "error of few", "error of many", "best mean scaled err"):
        assert words in page
    assert "in the target" not in page
    (run,) = compared.glob("sequences-*")
    outcomes = outcomes_of(Record(run))
    source = Record(run).settings.task.open(CPU)
    scales = source.understanding.scales
    steps = np.diff(source.sequences.values[:210], axis=0)
    np.testing.assert_allclose(scales, steps.std(0), rtol=1e-9)
    found = entry_of("GRU", [outcomes], False, ("a record",), scales)
    off = np.abs(outcomes.true - outcomes.predicted)
    parts = [off[outcomes.column == i].mean() for i in range(2)]
    assert found.errors == pytest.approx(parts, rel=1e-9)
    assert found.errors[1] > 1e5 * found.errors[0]
    assert found.score.mean == pytest.approx(np.mean(parts / scales), rel=1e-9)


def test_the_record_has_the_score_of_the_page(compared):
    (run,) = compared.glob("sequences-*")
    record = Record(run)
    scales = record.settings.task.open(CPU).understanding.scales
    entry = entry_of("GRU", [outcomes_of(record)], False, (record,), scales)
    assert record.metric == "scaled_error"
    assert record.status.test["test_scaled_error"] == pytest.approx(entry.score.mean, rel=1e-5)
    assert read_run(record).test == record.status.test["test_scaled_error"]


def test_other_data_is_scored_in_the_same_way(compared, capsys):
    (run,) = compared.glob("sequences-*")
    page = str(compared / "e.html")
    assert main(["evaluate", str(run), "--data", str(compared / "two.csv"), "--page", page]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("mean scaled error of few, many: ")
    assert "mean absolute error of each column: few " in said


def test_records_of_before_mean_what_they_meant(compared, monkeypatch, tmp_path):
    monkeypatch.setattr(Understanding, "scales", np.array([]))
    changes = {"data": str(compared / "two.csv"), "time": "t", "steps": 2, "hidden_size": 4}
    record = train(settings_for("sequences", "GRU", False, changes), tmp_path / "old")
    monkeypatch.undo()
    record = Record(record.folder)
    assert record.metric == "error"
    assert read_run(record).test == record.status.test["test_error"]
    assert read_run(record).task.metric == "error"
