"""What each column of a table is for, as it was said or as its name tells."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from io import StringIO

from rda.names import unknown_name
from rda.sequences.dataset import SequencesError, check_width
from rda.sequences.found import NAMES_ALONE, Found

SEQUENCE_NAMES = ("sequence", "sequence_id", "seq", "seq_id", "series", "series_id", "case", "id")
TIME_NAMES = ("time", "t", "step", "timestamp", "date", "datetime", "year", "index")
TARGET_NAMES = ("target", "label", "class", "y")
COUNTING_NAMES = frozenset({
    "year", "quarter", "month", "week", "weekday", "dayofweek", "day_of_week", "day", "hour",
    "minute", "second", "ds", "epoch", "unix", "ts", "row", "rownum", "row_number", "no", "no.",
    "nr", "cycle", "tick", "#",
})  # fmt: skip
"""Parts of dates and running numbers, in small letters: their values tell what they are."""
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
    forecast: tuple[str, ...] | None = None
    """The columns to be forecast where a forecast is asked for; none of them means to find out."""
    found: Found | None = None
    """What was found before; None to look at the values of columns that nobody named."""
    looked_at: tuple[str, ...] = ()
    """Columns that are read only because their values may tell what they are for."""

    @property
    def columns(self) -> list[str]:
        """All columns that are read, in any order."""
        others = (self.sequence, self.time, self.target, self.group, *self.looked_at)
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


def as_listed(name: str) -> str:
    """A name as `listed` reads it."""
    text = StringIO()
    csv.writer(text, lineterminator="").writerow([name])
    return text.getvalue() if name else ""


def understood(columns: Sequence[str], roles: Roles, one_a_file: bool) -> Roles:
    """The roles with those that were not given found by the names of columns.

    Args:
        columns: all names that a table has.
        roles: those that were given.
        one_a_file: whether each of several files is a sequence.
    """
    there, before = set(columns), roles.found or NAMES_ALONE
    named = [roles.sequence, roles.time, roles.target, roles.group, *roles.features, *roles.ignore]
    wanted = roles.forecast or ()
    for name in filter(None, (*named, *wanted)):
        if name not in there:
            raise _unknown(name, columns)
    taken = {*named, *wanted, *before.left_out}
    free = {name.lower(): name for name in columns if name not in taken}

    def first(known: str, names: Sequence[str]) -> str:
        if known in there - taken:
            return known
        return next((free[name] for name in names if name in free), "")

    forecast = roles.forecast is not None
    found = replace(
        roles,
        sequence=roles.sequence or ("" if one_a_file else first(before.sequence, SEQUENCE_NAMES)),
        time=roles.time or first(before.time, TIME_NAMES),
        target=roles.target or ("" if forecast else first("", TARGET_NAMES)),
        features=tuple(dict.fromkeys(roles.features)),
    )
    others = {found.sequence, found.time, found.target, found.group, *found.ignore}
    others |= {*before.left_out, *found.features}
    left = tuple(name for name in columns if name not in others)
    if not found.features:
        found = replace(found, features=left)
    elif roles.found is None:
        found = replace(found, looked_at=_telling(columns, left))
    check_width(len(found.features))
    return found


def _telling(columns: Sequence[str], left: Sequence[str]) -> tuple[str, ...]:
    """Columns that may name sequences or order steps: the first ones, and those so called."""
    begin = set(columns[:2])
    return tuple(name for name in left if name in begin or name.lower() in COUNTING_NAMES)


def _unknown(name: str, columns: Sequence[str]) -> SequencesError:
    if len(columns) <= LISTED:
        return SequencesError(unknown_name("column", name, columns))
    near = get_close_matches(name, columns, n=LISTED)
    alike = f": those most like it are {', '.join(near)}" if near else ""
    return SequencesError(f"there is no column {name!r} among {len(columns):,}{alike}")
