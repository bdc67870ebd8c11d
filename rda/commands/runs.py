"""rda runs: what was trained, and how it went."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from rda.commands.arguments import UsageError, parse
from rda.commands.training import default_runs
from rda.training.record import RecordError, find_records

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

    try:
        summaries = [summarise(record) for record in find_records(asked.runs_dir)]
    except RecordError as error:
        raise UsageError(str(error)) from error
    if not summaries:
        print(f"no runs in {asked.runs_dir}: rda train multicopy RDA-exp-tanh --small makes one")
        return 0
    Console().print(runs_table(summaries))
    return 0
