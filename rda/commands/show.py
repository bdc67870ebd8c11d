"""rda show: one run, its curve on the terminal and as a picture."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from rda.commands.arguments import UsageError, parse, wants_help
from rda.commands.training import default_runs
from rda.names import unknown_name
from rda.report.wording import printable
from rda.training.record import KILLED, PICTURE, SETTINGS, Record, RecordError, run_folders
from rda.training.settings_file import to_toml

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
        console.print(runs_table([summarise(record)], console.width))
        for panel in panels([record]):
            console.print(draw(panel, width=min(console.width, 100)))
        lines = [to_toml(record.settings), _ending(record)]
    except RecordError as error:
        raise UsageError(str(error)) from error
    picture = record.folder / PICTURE
    try:
        save_curves(picture, [record])
        lines.append(f"picture: {picture}")
    except OSError as error:
        lines.append(f"the picture cannot be written: {error.strerror}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0


def _ending(record: Record) -> str:
    status = record.status
    if status.state == KILLED:
        command = record.environment[-1]["command"] if record.environment else "its command"
        return f"killed at step {status.step} or later; it goes on with: {command}"
    return f"{status.state}: {status.reason}" if status.reason else status.state


def _find(name: str, runs: Path) -> Record:
    for folder in (runs / name, Path(name)):
        if (folder / SETTINGS).is_file():
            return Record(folder)
    there = [printable(folder.name) for folder in run_folders(runs)]
    if not there:
        raise RecordError(f"no run {name!r}, and no runs in {runs}")
    raise RecordError(unknown_name("run", name, there))
