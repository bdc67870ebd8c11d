"""What the README shows is what the records in the repository say."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from rda.cli import main
from rda.commands.train import outcome
from rda.report.headline import headline
from rda.report.summary import summarise
from rda.report.tables import comparison_table
from rda.training.record import Record, run_folders
from rda.training.settings import small_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.fixture
def records():
    found = [Record(folder) for folder in run_folders(ROOT / "docs" / "demo")]
    assert len(found) == 5
    return found


def printed(*things):
    console = Console(file=io.StringIO(), width=80)
    console.print(*things)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_the_demos_table_and_headline(records):
    goal = records[0].goal
    summaries = [summarise(record) for record in records]
    assert printed(comparison_table(summaries, goal)) in README
    assert printed(headline(summaries, goal)) in README


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
    assert main(["runs", "--runs-dir", str(ROOT / "docs" / "demo")]) == 0
    told = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert told in README
