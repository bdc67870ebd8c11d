"""What the README shows is what the records in the repository say."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from rda.cli import main
from rda.commands.training import outcome
from rda.report.comparison import build_comparison
from rda.report.tables import comparison_table
from rda.training.record import Record, run_folders
from rda.training.settings import small_settings

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "results" / "demo"
README = (ROOT / "README.md").read_text()


@pytest.fixture
def records():
    found = [Record(folder) for folder in run_folders(DEMO)]
    assert len(found) == 5
    return found


def printed(*things):
    console = Console(file=io.StringIO(), width=80)
    console.print(*things)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_the_demos_table_and_headline(records):
    comparison = build_comparison(records)
    assert printed(comparison_table(comparison)) in README
    assert printed(comparison.headline) in README


def test_the_demo_was_run_by_its_command_from_a_clean_checkout(records):
    for record in records:
        (start,) = record.environment
        assert start["command"] == "rda demo"
        assert start["git"]["dirty"] is False
        assert record.settings == small_settings("multicopy", record.settings.unit)


def test_what_training_prints(records):
    (record,) = (record for record in records if record.settings.unit == "RDA-exp-tanh")
    assert outcome("RDA-exp-tanh", record.status) in README
    assert record.name in README


def test_what_rda_runs_prints(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["runs", "--runs-dir", str(DEMO)]) == 0
    told = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert told in README
