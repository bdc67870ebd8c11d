"""rda data: the data sets of MNIST and Wikipedia."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rda.commands.arguments import UsageError, parse, wants_help
from rda.commands.progress import fetching
from rda.data import store
from rda.data.catalogue import DATASETS
from rda.data.errors import DataError
from rda.names import unknown_name

HELP = """\
usage: rda data list                       what there is, and what of it is here
       rda data fetch [mnist] [enwik8]     download what is missing (all, if none is named)
       rda data check [mnist] [enwik8]     read every file and compare its SHA-256

Options: --data-dir FOLDER   where to look and to download to ($RDA_DATA, else the cache)

Files may be raw, .gz or .zip. Without a network: put them in a folder and name it.
"""


@dataclass(frozen=True)
class DataArguments:
    """Where the data is."""

    data_dir: str = ""
    """Folder to look in and to download to ($RDA_DATA, else the cache)."""


def run(given: list[str]) -> int:
    """List, fetch or check; 1 where a check finds a file missing or bad."""
    if not given or wants_help(given):
        print(HELP, end="")
        return 0 if given else 2
    verb, *rest = given
    if verb not in ("list", "fetch", "check"):
        raise UsageError(unknown_name("rda data command", verb, ("list", "fetch", "check")))
    names = []
    while rest and not rest[0].startswith("-"):
        if rest[0] not in DATASETS:
            raise UsageError(unknown_name("data set", rest[0], DATASETS))
        names.append(rest.pop(0))
    asked = parse(DataArguments(), f"rda data {verb}", rest, "")
    folder = Path(asked.data_dir) if asked.data_dir else None
    try:
        if verb == "fetch":
            with fetching() as progress:
                for name in names or DATASETS:
                    store.fetch(name, folder, progress)
        return _show(names or list(DATASETS), folder, strict=verb == "check")
    except DataError as error:
        raise UsageError(str(error)) from error


def _show(names: list[str], folder: Path | None, strict: bool) -> int:
    table = Table("data set", "file", "state", "where")
    whole = True
    for name in names:
        for file in store.check(name, folder):
            where = " ".join(filter(None, (str(file.path or ""), file.reason)))
            table.add_row(name, file.name, file.state, Text(where, overflow="fold"))
            whole &= file.state == "good"
    Console().print(table)
    return 0 if whole or not strict else 1
