"""Columns of a table: numbers, moments, or words, each as one array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rda.sequences.dataset import Counts, Numbers, SequencesError, text_of
from rda.sequences.found import NAMES_ALONE, Found
from rda.sequences.moments import MISSING, is_moment, moments, moments_of_words
from rda.sequences.roles import Roles

SECONDS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclass(frozen=True)
class Column:
    """The values of one column over all rows."""

    values: Numbers
    """Numbers, or indices into `words`; NaN where missing."""
    words: tuple[str, ...] = ()
    """Empty for a column of numbers; sorted."""
    are_moments: bool = False
    """Whether the numbers are dates or times, in seconds since 1970."""

    def as_moments(self) -> Numbers | None:
        """Seconds since 1970; None where the column does not hold dates."""
        if self.are_moments:
            return self.values
        if not self.words or not all(map(is_moment, self.words)):
            return None
        seconds = np.append(moments_of_words(self.words), np.nan)
        return seconds[np.where(np.isnan(self.values), -1, self.values).astype(np.int64)]


@dataclass(frozen=True)
class Table:
    """Rows of a file, of several, or of a frame: the columns that have a role."""

    columns: Mapping[str, Column]
    files: Counts
    """(rows): the number of the file that a row came from."""
    names: tuple[str, ...]
    """Of the files."""
    roles: Roles
    """What each column is for."""
    features_given: bool = False
    """Whether somebody named the columns that are inputs."""
    notes: tuple[str, ...] = ()
    """What was unusual in the files, in sentences."""
    header: tuple[str, ...] = ()
    """All columns that there are, in their order."""
    headless: bool = False
    """Whether the files have no names of columns."""
    found: Found = NAMES_ALONE
    """What columns are for that nobody named."""


class ColumnBuilder:
    """A column of known length that is filled by blocks."""

    def __init__(self, kind: str, rows: int) -> None:
        self.kind = kind
        self._values = np.empty(rows)
        self._filled = 0
        self._index: dict[str, int] = {}

    def add(self, cells: Sequence[str]) -> None:
        """Some more rows, as texts; a ValueError where they are not of the column's kind, or more
        than it can hold."""
        self.add_values({"numbers": numbers, "moments": moments}.get(self.kind, self._coded)(cells))

    def add_values(self, values: Numbers) -> None:
        """Some more rows, as numbers."""
        self._values[self._filled : self._filled + len(values)] = values
        self._filled += len(values)

    def add_words(self, places: Counts, words: Sequence[str]) -> None:
        """Some more rows, as places in a list of words; a negative place is a missing word."""
        codes = np.append(self._coded(words), np.nan)
        self.add_values(codes[np.where(places < 0, len(words), places)])

    def _coded(self, cells: Sequence[str]) -> Numbers:
        index = self._index
        stripped = [cell.strip() for cell in cells]
        return np.array(
            [
                np.nan if cell.lower() in MISSING else index.setdefault(cell, len(index))
                for cell in stripped
            ],
            dtype=np.float64,
        )

    def finish(self) -> Column:
        """The column, its words sorted so that they do not depend on the order of the rows; a
        ValueError where rows are missing."""
        if self._filled != len(self._values):
            raise ValueError("there are fewer rows than there should be")
        if self.kind == "moments":
            return Column(self._values, are_moments=True)
        return with_sorted_words(self._values, tuple(self._index))


def with_sorted_words(values: Numbers, words: tuple[str, ...]) -> Column:
    """A column whose words may stand in any order."""
    if not words:
        return Column(values)
    order = sorted(range(len(words)), key=words.__getitem__)
    place = np.empty(len(words) + 1)
    place[order] = np.arange(len(words))
    place[-1] = np.nan
    index = np.where(np.isnan(values), len(words), values).astype(np.int64)
    return Column(place[index], tuple(words[i] for i in order))


class KindOfColumn:
    """What the cells of a column hold: numbers if all do, else moments if all do, else words, which
    names are in any case."""

    def __init__(self, are_names: bool) -> None:
        self._numbers = self._moments = not are_names

    def see(self, cells: Sequence[str]) -> None:
        """Some more cells."""
        if self._numbers:
            self._numbers = _fit(numbers, cells)
        if self._moments and self._numbers:
            # A number is seldom a date (20200131): one cell tells whether to look at all.
            known = next((cell for cell in cells if cell.strip().lower() not in MISSING), "")
            self._moments = _fit(moments, (known,))
        if self._moments:
            self._moments = _fit(moments, cells)

    @property
    def name(self) -> str:
        """Of the kind."""
        return "numbers" if self._numbers else "moments" if self._moments else "words"


def _fit(parse: Any, cells: Sequence[str]) -> bool:
    try:
        parse(cells)
    except (ValueError, OverflowError):
        return False
    return True


def numbers(cells: Sequence[str]) -> Numbers:
    """The cells as numbers; a ValueError where one is none."""
    if "_" in "".join(cells):  # Python reads 1_000 as a number, a table does not mean one
        raise ValueError("no number has an underscore")
    try:
        return np.array(cells, dtype=np.float64)  # quick, where nothing is missing
    except ValueError:
        found = [np.nan if cell.strip().lower() in MISSING else float(cell) for cell in cells]
        return np.array(found, dtype=np.float64)


def taken_for_words(name: str, words: Sequence[str]) -> str:
    """A sentence where words look as if they were meant for numbers."""
    if not words:
        return ""
    strays = [word for word in words if not _is_number(word)]
    if not strays:
        return f"{name} holds numbers as texts: taken for words"
    if all(_is_number(word.replace(",", ".", 1)) for word in strays):
        return (
            f"{name} holds numbers with a comma, such as {strays[0]!r}: taken for words; numbers "
            "are written with a point"
        )
    if len(strays) * 2 > len(words):
        return ""
    return f"{name} holds numbers, but also {strays[0]!r}: all its cells are taken for words"


def stray_word(column: Column) -> str:
    """A word of a column that is not a date or a number either, or else any; none of numbers."""
    plain = (word for word in column.words if not _is_number(word) and not is_moment(word))
    return next(plain, "".join(column.words[:1]))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def column_of(values: NDArray[Any], name: str, is_name: bool = False) -> Column:
    """A column from an array of any kind: numbers, booleans, dates, or objects.

    Args:
        values: one for each row.
        name: of the column.
        is_name: whether they are names of something, also where they are numbers.
    """
    kind = values.dtype.kind
    if values.ndim != 1:
        raise SequencesError(f"column {name} should have one value in a row, got {values.ndim - 1}")
    if kind in "fiu" and not (is_name and kind != "f"):
        with np.errstate(over="ignore"):
            return Column(values.astype(np.float64))
    if kind in "Mm":
        return Column(_seconds(values), are_moments=kind == "M")
    if kind in "cV":
        raise SequencesError(f"column {name} holds {values.dtype}, and not numbers or words")
    listed = values.tolist()
    known = [one for one in listed if not _is_missing(one)]
    if kind == "O" and not is_name and known and all(type(one) in (int, float) for one in known):
        found = [np.nan if _is_missing(one) else _as_float(one) for one in listed]
        return Column(np.array(found, dtype=np.float64))
    builder = ColumnBuilder("words", len(listed))
    builder.add(["" if _is_missing(one) else text_of(one) for one in listed])
    return builder.finish()


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas does not say whether NA is NA
        return True
    except ValueError:  # an array in a cell
        return False


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of Python has no largest one
        return np.inf if value > 0 else -np.inf


def _seconds(values: NDArray[Any]) -> Numbers:
    """Dates as seconds since 1970, and durations as seconds; NaN where there is none."""
    unit = np.datetime_data(values.dtype)[0]
    if unit not in SECONDS:
        unit = "ns" if unit in ("ps", "fs", "as") else "s"
    exact = values.astype(f"{values.dtype.kind}8[{unit}]")
    return np.where(np.isnat(exact), np.nan, exact.astype(np.int64) / SECONDS[unit])
