"""rda data: the data sets of MNIST and Wikipedia."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rda.commands.parser import Parser, UsageError, add_options, given_values, make
from rda.data.catalogue import DATASETS
from rda.names import unknown_name

SUMMARY = "the data of MNIST and Wikipedia"
DESCRIPTION = """\
rda data list                       the data sets, and which files are on this machine
rda data fetch [mnist] [enwik8]     download what is missing (all, if none is named)
rda data check [mnist] [enwik8]     read every file and compare its SHA-256

Files may be plain, .gz or .zip. Without a network: put them in a folder, and name it with
--data-dir.
"""
VERBS = {
    "list": "the data sets, and which files are on this machine",
    "fetch": "download what is missing",
    "check": "read every file and compare its SHA-256",
}


@dataclass(frozen=True)
class DataOptions:
    """Where the data is."""

    data_dir: str = ""
    """Folder to look in and to download to ($RDA_DATA, otherwise the cache)."""


def add(parser: Parser, explain: bool) -> None:
    """The three verbs as subcommands."""
    parser.description = DESCRIPTION
    verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", prog=parser.prog)
    for verb, summary in VERBS.items():
        one = verbs.add_parser(verb, help=summary, description=summary.capitalize() + ".")
        one.set_defaults(parser=one)
        one.add_argument("dataset", nargs="*", metavar="DATASET", help=", ".join(DATASETS))
        add_options(one, "options of data", DataOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """List, fetch or check; 1 where a check finds a file missing or bad."""
    from rda.data import store
    from rda.data.errors import DataError
    from rda.training.progress import fetching

    if asked.verb is None:
        raise UsageError(f"rda data needs one of {', '.join(VERBS)} (rda data --help)")
    for name in asked.dataset:
        if name not in DATASETS:
            raise UsageError(unknown_name("data set", name, DATASETS))
    names = asked.dataset or list(DATASETS)
    data_dir: str = make(DataOptions, given_values(asked, DataOptions)).data_dir
    folder = Path(data_dir) if data_dir else None
    try:
        if asked.verb == "fetch":
            with fetching() as progress:
                for name in names:
                    store.fetch(name, folder, progress)
        return _show({name: store.check(name, folder) for name in names}, asked.verb == "check")
    except DataError as error:
        raise UsageError(str(error)) from error


def _show(found: dict[str, list[Any]], strict: bool) -> int:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("data set", "file", "state", "where")
    whole = True
    for name, states in found.items():
        for file in states:
            where = " ".join(filter(None, (str(file.path or ""), file.reason)))
            table.add_row(name, file.name, file.state, Text(where, overflow="fold"))
            whole &= file.state == "good"
    Console().print(table)
    return 0 if whole or not strict else 1
