"""rda show: one run, its curve in the terminal and as a picture."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import rda
from rda.commands.finding import find_run
from rda.commands.parser import Parser, UsageError, add_options, given_values, make
from rda.options import default_runs
from rda.training.record import PICTURE, Record
from rda.training.settings_file import to_toml
from rda.training.status import INTERRUPTED, KILLED, RecordError

SUMMARY = "one run: its curve, its settings, how it ended"
DESCRIPTION = """\
One run: what was set, how it ended, its curves here and as curves.png in its folder. RUN is a
name that `rda runs` lists, or a folder.
"""


@dataclass(frozen=True)
class ShowOptions:
    """Where to look."""

    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""


def add(parser: Parser, explain: bool) -> None:
    """The run and the options."""
    parser.description = DESCRIPTION
    parser.add_argument("run", nargs="?", metavar="RUN", help="a name, or a folder")
    add_options(parser, "options of show", ShowOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Print the run and write its picture."""
    if not asked.run:
        raise UsageError("rda show needs a run: rda runs lists them")
    runs: Path = make(ShowOptions, given_values(asked, ShowOptions)).runs_dir
    from rich.console import Console

    from rda.files import write_atomically
    from rda.report.comparison import build_comparison
    from rda.report.figure import render_png
    from rda.report.reading import UNREADABLE
    from rda.report.tables import runs_table
    from rda.report.terminal import draw

    console = Console()
    try:
        record = find_run(asked.run, runs)
        comparison = build_comparison([record])
        (row,) = comparison.rows
        if row.run.state == UNREADABLE:
            raise RecordError(row.run.reason)
        console.print(runs_table([row.run], console.width))
        for panel in comparison.panels:
            console.print(draw(panel, width=min(console.width, 100)))
        lines = [to_toml(record.settings), _ending(record)]
    except RecordError as error:
        raise UsageError(str(error)) from error
    picture = record.folder / PICTURE
    if record.folder.resolve() == rda.PRETRAINED.resolve():
        lines.append("no picture is written into the package")
    else:
        try:
            write_atomically(picture, render_png(comparison))
            lines.append(f"picture: {picture}")
        except OSError as error:
            lines.append(f"the picture cannot be written: {error.strerror}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0


def _ending(record: Record) -> str:
    from rda.wording import printable

    status = record.status
    goes_on = f"it continues with: {printable(record.command or 'the command that started it')}"
    if status.state == KILLED:
        return f"killed at step {status.step} or later; {goes_on}"
    ending = ": ".join(filter(None, (status.state, status.reason)))
    return printable(f"{ending}; {goes_on}" if status.state == INTERRUPTED else ending)
