"""What each column of a table is for, as it was said or as its name tells."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from rda.names import unknown_name
from rda.sequences.dataset import SequencesError, check_width

SEQUENCE_NAMES = ("sequence", "sequence_id", "seq", "seq_id", "series", "series_id", "case", "id")
TIME_NAMES = ("time", "t", "step", "timestamp", "date", "datetime", "year", "index")
TARGET_NAMES = ("target", "label", "class", "y")
LISTED = 20
"""Names of columns that an error lists; of more, only those that are alike."""


@dataclass(frozen=True)
class Roles:
    """What each column of a table is for; empty where that is to be found out."""

    sequence: str = ""
    time: str = ""
    target: str = ""
    group: str = ""
    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """All columns that are read, in any order."""
        others = (self.sequence, self.time, self.target, self.group)
        return list(dict.fromkeys(name for name in (*others, *self.features) if name))

    @property
    def names_only(self) -> set[str]:
        """Columns whose cells are names, also where they look like numbers: 01 is not 1, and no
        two of many digits are the same because a float does not tell them apart."""
        return {self.sequence, self.group} - {""} - set(self.features)


def listed(text: str) -> tuple[str, ...]:
    """Names separated by commas; one with a comma is in double quotes, as in a table."""
    try:
        cells = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise SequencesError(f"names should be separated by commas, got {text!r}") from error
    return tuple(name for cell in cells if (name := cell.strip()))


def understood(columns: Sequence[str], roles: Roles, one_a_file: bool) -> Roles:
    """The roles with those that were not given found by the names of columns.

    Args:
        columns: all names that a table has.
        roles: those that were given.
        one_a_file: whether each of several files is a sequence.
    """
    there = set(columns)
    named = [roles.sequence, roles.time, roles.target, roles.group, *roles.features, *roles.ignore]
    for name in filter(None, named):
        if name not in there:
            raise _unknown(name, columns)
    taken = {name for name in named if name}
    free = {name.lower(): name for name in columns if name not in taken}

    def first(names: Sequence[str]) -> str:
        return next((free[name] for name in names if name in free), "")

    found = replace(
        roles,
        sequence=roles.sequence or ("" if one_a_file else first(SEQUENCE_NAMES)),
        time=roles.time or first(TIME_NAMES),
        target=roles.target or first(TARGET_NAMES),
        features=tuple(dict.fromkeys(roles.features)),
    )
    if not found.features:
        others = {found.sequence, found.time, found.target, found.group, *found.ignore}
        found = replace(found, features=tuple(name for name in columns if name not in others))
    check_width(len(found.features))
    return found


def _unknown(name: str, columns: Sequence[str]) -> SequencesError:
    if len(columns) <= LISTED:
        return SequencesError(unknown_name("column", name, columns))
    near = get_close_matches(name, columns, n=LISTED)
    alike = f": those most like it are {', '.join(near)}" if near else ""
    return SequencesError(f"there is no column {name!r} among {len(columns):,}{alike}")
