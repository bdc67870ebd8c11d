"""The benchmark runs, and its README says what was recorded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import table

    return table


def test_the_readme_is_made_from_the_records(table):
    assert (FOLDER / "README.md").read_text() == table.render_readme()


def test_every_record_names_its_machine_and_command():
    records = list((FOLDER / "results").glob("*.json"))
    assert records
    for path in records:
        machine = json.loads(path.read_text())["machine"]
        for name in ("cpu", "threads", "torch", "python", "commit", "date", "command"):
            assert machine[name]
        assert "dirty" not in machine["commit"]


def test_a_quick_run_ends_with_a_table():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "speed.py"), "--quick", "--rounds", "2"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    for name in ("nn.LSTM", "nn.GRU", "RDA-exp-tanh", "RDACell"):
        assert f"| {name} |" in done.stdout


def test_the_ratio_in_the_readme_is_the_recorded_one():
    case = json.loads((FOLDER / "results" / "cpu.json").read_text())["cases"][0]
    assert (case["units"], case["batch"]) == (250, 100)
    medians = {name: times["training"]["median"] for name, times in case["times_ms"].items()}
    ratio = medians["nn.LSTM"] / medians["RDA-exp-tanh"]
    assert f"{ratio:.2f} times as fast as nn.LSTM" in (FOLDER.parent / "README.md").read_text()
