"""rda inspect: what a trained RDA or RWA looked at."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from rda.analysis.inspection import SEED, Inspection, read, save
from rda.commands.finding import find_run
from rda.commands.parser import Parser, add_options, given_values, make
from rda.commands.training import as_usage_errors
from rda.options import default_runs
from rda.settings import check_at_least
from rda.training.derived import is_sealed
from rda.training.record import INSPECTION, INSPECTION_PICTURE
from rda.wording import printable

SUMMARY = "what a trained RDA or RWA looked at: attention and discount over time"
DESCRIPTION = """\
Let the model of a run read one sequence of its task and look inside the unit: how much of the
average is the newest step (its attention, beside the weight of everything before), and how much
of the past is kept (its discount). Prints the means and draws a picture with a row for each of
some units, under what was read.
"""
EXAMPLES = """\
Examples:
  rda train multicopy RDA-exp-tanh --small
  rda inspect multicopy-RDA-exp-tanh-small-seed0
  rda inspect mine --data new.csv --row 3              a sequence of your own
"""
UNSEALED = " (unsealed: nothing shows that they are of the weights of the run)"


@dataclass(frozen=True)
class InspectOptions:
    """Which sequence, and where the run is."""

    sequence: int = SEED
    """Seed of the sequence of the task that is read."""
    data: str = ""
    """Sequences of your own to read from, for a run of `rda train --data`: a file, a folder or a
    pattern with the columns of the training data."""
    row: int = 0
    """The number of the sequence in --data, from 0."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""

    def __post_init__(self) -> None:
        check_at_least("sequence", self.sequence, 0)
        check_at_least("row", self.row, 0)


def add(parser: Parser, explain: bool) -> None:
    """The run and the options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.usage = "rda inspect RUN [options]"
    parser.add_argument("run", metavar="RUN", help="a name, or a folder")
    add_options(parser, "options", InspectOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Look inside, print the means, draw the picture."""
    from rich.console import Console

    from rda.analysis.looking import inspect_row, inspect_run
    from rda.files import write_atomically
    from rda.report.inspection import render_inspection
    from rda.training.resources import enough_memory

    options: InspectOptions = make(InspectOptions, given_values(asked, InspectOptions))
    with as_usage_errors(), enough_memory():
        record = find_run(asked.run, options.runs_dir)
        folder = record.folder
        kept, note = None, ""
        if record.status.thinned:  # its weights are gone
            record.verify()
            kept = read(folder)
            if kept is not None and not is_sealed(folder, INSPECTION):
                note = UNSEALED
        if options.data:
            found = inspect_row(folder, options.data, options.row)
        else:
            found = kept or inspect_run(folder, options.sequence)
        if found is not kept:  # which its manifest holds
            save(folder, found)
    picture = folder / INSPECTION_PICTURE
    write_atomically(picture, render_inspection(found))
    console = Console()
    lines = [
        printable(f"{found.unit} on {found.task}, {_which(found)} of {found.steps} steps"),
        f"share of the newest step: {_range(found.new_share)}",
        f"discount of the past: {_range(found.discount)}",
        f"highest attention, log a: {_range(found.highest_attention)}",
    ]
    if found.accuracy is not None:
        lines.append(f"right answers: {found.accuracy:.1%}")
    if found.answer:
        lines.append(printable(f"the model says {found.answer}"))
    lines += [f"numbers: {folder / INSPECTION}{note}", f"picture: {picture}"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0


def _which(found: Inspection) -> str:
    return f"sequence {found.sequence}" if found.sequence else "one sequence"


def _range(values: list[float]) -> str:
    mean = sum(values) / len(values)
    return f"mean {mean:.3g}, from {min(values):.3g} to {max(values):.3g}"
