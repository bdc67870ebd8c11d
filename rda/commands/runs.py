"""rda runs: what was trained, and how it went."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from rda.commands.arguments import parse
from rda.commands.training import default_runs
from rda.training.record import Record, RecordError, run_folders

DESCRIPTION = "Every run, its state and its goal step. A run that was killed goes on with the \
command that started it."


@dataclass(frozen=True)
class RunsArguments:
    """Which runs."""

    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""


def run(given: list[str]) -> int:
    """Print the table."""
    asked = parse(RunsArguments(), "rda runs", given, DESCRIPTION)
    from rda.report.summary import summarise
    from rda.report.tables import runs_table
    from rda.report.wording import printable

    summaries, complaints = [], []
    for folder in run_folders(asked.runs_dir):
        try:
            summaries.append(summarise(Record(folder)))
        except RecordError as error:
            complaints.append(printable(str(error)))
    if not summaries and not complaints:
        print(f"no runs in {asked.runs_dir}: rda train multicopy RDA-exp-tanh --small makes one")
        return 0
    console = Console()
    console.print(runs_table(summaries, console.width))
    for line in complaints:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 1 if complaints else 0
