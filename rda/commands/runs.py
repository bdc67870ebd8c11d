"""rda runs: what was trained, and how it went."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from rda.commands.parser import Parser, add_options, given_values, make
from rda.options import default_runs
from rda.training.record import read_records, run_folders
from rda.training.status import RecordError

SUMMARY = "what was trained, and how it went"
DESCRIPTION = """\
Every run, its state and the step at which it reached its goal. A run that was killed continues
with the command that started it.
"""


@dataclass(frozen=True)
class RunsOptions:
    """Which runs."""

    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""


def add(parser: Parser, explain: bool) -> None:
    """The options."""
    parser.description = DESCRIPTION
    add_options(parser, "options of runs", RunsOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Print the table; 1 where a run cannot be read, which does not hide the others."""
    from rich.console import Console

    from rda.report.summary import summarise
    from rda.report.tables import runs_table
    from rda.wording import printable

    runs: Path = make(RunsOptions, given_values(asked, RunsOptions)).runs_dir
    records, complaints = read_records(run_folders(runs))
    summaries = []
    for record in records:
        try:
            summaries.append(summarise(record))
        except RecordError as error:
            complaints.append(str(error))
        except OSError as error:
            complaints.append(f"{error.filename or record.folder}: {error.strerror}")
    if not summaries and not complaints:
        print(f"no runs in {runs}: rda train multicopy RDA-exp-tanh --small makes one")
        return 0
    console = Console()
    if summaries:
        console.print(runs_table(summaries, console.width))
    for line in complaints:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    return 1 if complaints else 0
