"""A run by its name or its folder."""

from pathlib import Path

from rda.names import unknown_name
from rda.training.record import SETTINGS, Record, run_folders
from rda.training.status import RecordError


def find_run(name: str, runs: Path) -> Record:
    """The run of this name in a folder of runs, or the folder itself.

    Raises:
        RecordError: there is none, with the nearest name as a hint.
    """
    from rda.wording import printable

    for folder in (runs / name, Path(name)):
        if (folder / SETTINGS).is_file():
            return Record(folder)
    there = [printable(folder.name) for folder in run_folders(runs)]
    if not there:
        raise RecordError(f"no run {name!r}, and no runs in {runs}")
    raise RecordError(unknown_name("run", name, there))
