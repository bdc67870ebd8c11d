"""rda show: one run, its curve on the terminal and as a picture."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from rda.commands.arguments import UsageError, parse, wants_help
from rda.commands.training import default_runs
from rda.names import unknown_name
from rda.training.record import SETTINGS, Record, RecordError, find_records

DESCRIPTION = """\
One run: what was set, how it ended, its curves here and as curves.png in its folder. RUN is a
name that `rda runs` lists, or a folder.\
"""


@dataclass(frozen=True)
class ShowArguments:
    """Where to look."""

    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""


def run(given: list[str]) -> int:
    """Print the run and write its picture."""
    if not given or given[0].startswith("-"):
        if not wants_help(given):
            raise UsageError("rda show needs a run: rda runs lists them")
        parse(ShowArguments(), "rda show RUN", given, DESCRIPTION)
    name, *rest = given
    asked = parse(ShowArguments(), "rda show RUN", rest, DESCRIPTION)
    from rda.report.curves import panels
    from rda.report.figure import save_curves
    from rda.report.summary import summarise
    from rda.report.tables import runs_table
    from rda.report.terminal import draw

    console = Console()
    try:
        record = _find(name, asked.runs_dir)
        console.print(runs_table([summarise(record)]))
        for panel in panels([record]):
            console.print(draw(panel, width=min(console.width, 100)))
        picture = record.folder / "curves.png"
        save_curves(picture, [record])
    except RecordError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"the picture cannot be written: {error.strerror}") from error
    console.print(f"{record.status.state}: {record.status.reason}", markup=False, soft_wrap=True)
    console.print(f"picture: {picture}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _find(name: str, runs: Path) -> Record:
    for folder in (runs / name, Path(name)):
        if (folder / SETTINGS).is_file():
            return Record(folder)
    there = [record.name for record in find_records(runs)]
    if not there:
        raise RecordError(f"no run {name!r}, and no runs in {runs}")
    raise RecordError(unknown_name("run", name, there))
