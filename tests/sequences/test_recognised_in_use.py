"""What was recognised in training holds for later data; models and runs of before are read as they
were; the commands of the documentation work on its own example."""

import csv
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from recognised_files import AIRLINE, QUARTERS, TIMES, table, write

import rda
from rda.cli import main
from rda.tasks.own_sequences import OwnSequences
from rda.training.record import Record
from rda.training.settings import default_name, settings_for, to_table
from rda.training.settings_file import from_table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sequences.md").read_text()


def trained(folder, data, **changes):
    changes = {"steps": 3, "hidden_size": 4, "device": "cpu", "progress": False} | changes
    rda.train("sequences", "GRU", data=data, folder=folder, **changes)
    return rda.load(folder)


def test_later_data_is_read_as_that_of_training(tmp_path):
    rows = {"unit": [], "when": [], "x": []}
    for unit in ("01", "02"):
        rows["unit"] += [unit] * len(TIMES)
        rows["when"] += TIMES
        rows["x"] += AIRLINE
    model = trained(tmp_path / "run", write(tmp_path, table(**rows)), horizon=2)
    assert (model.understanding.found.sequence, model.understanding.found.time) == ("unit", "when")
    # One sequence alone tells nobody that a column names it, nor do three rows that time orders.
    one = {name: column[2::-1] for name, column in rows.items()}
    ((sequences, _),) = model.answers(write(tmp_path, table(**one), "one.csv"))
    assert sequences.ids == ("01",)
    assert sequences.values[:, 0].tolist() == AIRLINE[:3]
    bare = write(tmp_path, table(x=AIRLINE[:5]), "bare.csv")
    assert model.predict(bare).shape == (5, 2, 1)
    frame = pandas.DataFrame(one)
    np.testing.assert_array_equal(model.predict(frame), model.predict(str(tmp_path / "one.csv")))


def test_frames_in_memory_are_recognised_too(tmp_path):
    dates = pandas.to_datetime(TIMES).rename("ds")
    frame = pandas.DataFrame({"y": AIRLINE}, index=dates)
    model = trained(tmp_path / "run", frame[::-1], horizon=3)
    assert Record(tmp_path / "run").settings.task.target == "y"
    assert [channel.name for channel in model.understanding.channels] == ["y"]
    np.testing.assert_array_equal(model.predict(frame[::-1]), model.predict(frame))


def test_a_model_of_rows_of_series_reads_rows_of_series(tmp_path):
    generator = np.random.default_rng(0)
    rows = [[i % 2, *generator.normal(i % 2, 1, 20)] for i in range(40)]
    frame = pandas.DataFrame(rows)
    frame.to_csv(tmp_path / "a.tsv", sep="\t", header=False, index=False)
    model = trained(tmp_path / "run", tmp_path / "a.tsv")
    assert len(model.predict(tmp_path / "a.tsv")) == 40
    (tmp_path / "b.tsv").write_text((tmp_path / "a.tsv").read_text().split("\n")[0] + "\n")
    assert len(model.predict(tmp_path / "b.tsv")) == 1
    with pytest.raises(ValueError, match="should hold numbers without names of columns"):
        model.predict(write(tmp_path, table(label=[0, 1], x=[1, 2])))


def test_columns_that_nobody_asked_for_may_hold_anything(tmp_path):
    frame = pandas.DataFrame({"odd": [[1, 2]] * len(TIMES), "ds": TIMES, "x": AIRLINE})
    frame.to_parquet(tmp_path / "a.parquet")
    complex_ones = frame.assign(odd=1j)
    for data in (tmp_path / "a.parquet", frame, complex_ones):
        found = rda.sequences.read(data, rda.sequences.Roles(features=("x",)))
        assert found.values[:, 0].tolist() == AIRLINE
        assert found.found.time == "ds"


def test_models_and_runs_of_before_are_read_as_they_were(tmp_path):
    """They have dates as inputs, words for quarters, and a first step that is a header."""
    path = write(tmp_path, table(ds=TIMES, Quarter=QUARTERS, x=AIRLINE))
    model = trained(tmp_path / "run", path, recognise="names", ignore="Quarter", horizon=2)
    assert model.understanding.target == ("ds", "x")
    assert "found" not in model.understanding.to_facts()
    assert model.predict(path).shape == (len(TIMES), 2, 2)
    words = trained(tmp_path / "words", path, recognise="names", features="Quarter,x")
    assert words.predict(path).shape == (len(TIMES), 1, 1)
    years = write(tmp_path, ",0\n" + "".join(f"{1700 + i},{x}\n" for i, x in enumerate(AIRLINE)))
    headless = trained(tmp_path / "headless", years, recognise="names")
    assert headless.predict(years).shape == (len(AIRLINE) + 1, 1, 2)


def test_settings_without_the_choice_are_those_of_names_alone(tmp_path):
    path = write(tmp_path, table(ds=TIMES, x=AIRLINE))
    now = settings_for("sequences", "GRU", False, {"data": path})
    assert isinstance(now.task, OwnSequences)
    before = replace(now, task=replace(now.task, recognise="names"))
    written = to_table(now)
    del written["task"]["recognise"]
    assert from_table(written) == before
    assert default_name(now) != default_name(before)
    assert [one.name for one in before.task.read().channels] == ["ds", "x"]


def machines(folder):
    """A file with the columns of the page's example, and as many machines as it speaks of."""
    header = re.search(r"```\n(machine,.*)\n", PAGE)[1]
    generator = np.random.default_rng(0)
    with (folder / "machines.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        for i in range(60):
            worn = i % 3 == 0
            for hour in range(generator.integers(20, 41)):
                vibration = 0.4 + 0.3 * worn * (hour % 2) + generator.normal(0, 0.05)
                heat = 60 + generator.normal()
                state = generator.choice(["idle", "running"])
                label = "worn" if worn else "sound"
                writer.writerow(
                    [f"M{i + 1:02}", hour, f"{heat:.1f}", f"{vibration:.2f}", state, label]
                )


def test_the_example_of_the_page_is_understood_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    machines(tmp_path)
    said = re.search(r"before it trains:\n\n```\n(.*?)\n```", PAGE, flags=re.S)[1].splitlines()
    told = OwnSequences(data="machines.csv").told()
    counts = r"\d+ to \d+|\(\d+\)|\d+ (train|validate|test)"
    assert [re.sub(counts, "N", line) for line in told] == [
        re.sub(counts, "N", line) for line in said
    ]
    rows = re.search(r"```\n(machine,.*?)```", PAGE, flags=re.S)[1]
    few = OwnSequences(data=write(tmp_path, rows, "few.csv")).read()
    assert few.ids == ("M01", "M02", "M03")
    assert few.lengths.tolist() == [2, 1, 2]
    assert [channel.name for channel in few.channels] == ["temperature", "vibration", "state"]


@pytest.mark.parametrize("page", ["README.md", "docs/sequences.md", "docs/site/index.md"])
def test_the_first_command_of_the_pages_works_on_the_example(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    machines(tmp_path)
    text = (ROOT / page).read_text()
    line = shlex.split(re.search(r"rda (compare --data [^`\n]*)[`\n]", text)[1])
    assert line == ["compare", "--data", "machines.csv"]
    quick = ["GRU", "--steps", "3", "--seeds", "1", "--rates", "0.01", "--sizes", ""]
    assert main([*line, *quick, "--runs-dir", str(tmp_path / "runs")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "60 sequences of" in told
    assert "machine names the sequences; --sequence names another column" in told
    assert "hour counts up and orders the steps; --time names another column" in told
