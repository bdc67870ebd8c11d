"""Columns of a table: numbers, moments, or words, each as one array."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rda.sequences.dataset import Counts, Numbers, SequencesError

MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "?"})
"""Cells that say that there is no value, in small letters."""


@dataclass(frozen=True)
class Column:
    """The values of one column over all rows."""

    values: Numbers
    """Numbers, or indices into `words`; NaN where missing."""
    words: tuple[str, ...] = ()
    """Empty for a column of numbers; sorted."""
    are_moments: bool = False
    """Whether the numbers are seconds since 1970, read from dates."""


@dataclass(frozen=True)
class Table:
    """Rows of a file, of several, or of a frame."""

    columns: Mapping[str, Column]
    files: Counts
    """(rows): the number of the file that a row came from."""
    names: tuple[str, ...]
    """Of the files."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.files)


class ColumnBuilder:
    """A column that grows by blocks of cells, as texts."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._blocks: list[Numbers] = []
        self._index: dict[str, int] = {}

    def add(self, cells: tuple[str, ...]) -> None:
        """Some more rows."""
        self._blocks.append(
            {"numbers": numbers, "moments": moments}.get(self.kind, self._coded)(cells)
        )

    def _coded(self, cells: tuple[str, ...]) -> Numbers:
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
        """The column, its words sorted so that they do not depend on the order of the rows."""
        values = np.concatenate(self._blocks) if self._blocks else np.empty(0)
        self._blocks.clear()
        return with_sorted_words(values, tuple(self._index), self.kind == "moments")


def with_sorted_words(values: Numbers, words: tuple[str, ...], are_moments: bool = False) -> Column:
    """A column whose words may stand in any order."""
    if not words:
        return Column(values, (), are_moments)
    order = sorted(range(len(words)), key=words.__getitem__)
    place = np.empty(len(words) + 1)
    place[order] = np.arange(len(words))
    place[-1] = np.nan
    known = ~np.isnan(values)
    index = np.where(known, values, len(words)).astype(np.int64)
    return Column(place[index], tuple(words[i] for i in order))


def numbers(cells: tuple[str, ...]) -> Numbers:
    """The cells as numbers; a ValueError where one is none."""
    try:
        return np.array(cells, dtype=np.float64)  # quick, where nothing is missing
    except ValueError:
        return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _number(cell: str) -> float:
    cell = cell.strip()
    if cell.lower() in MISSING:
        return float("nan")
    if "_" in cell:  # Python reads 1_000 as a number, a table does not mean one
        raise ValueError(cell)
    return float(cell)


def moments(cells: tuple[str, ...]) -> Numbers:
    """Dates and times as seconds since 1970; a ValueError where a cell is none."""
    return np.array([_moment(cell.strip()) for cell in cells], dtype=np.float64)


def _moment(cell: str) -> float:
    if cell.lower() in MISSING:
        return float("nan")
    found = datetime.fromisoformat(cell)
    # A date without a zone is taken as it stands: only differences between rows matter.
    return (found.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() - (
        offset.total_seconds() if (offset := found.utcoffset()) else 0.0
    )


def column_of(values: NDArray[Any], name: str) -> Column:
    """A column from an array of any kind: numbers, booleans, dates, or objects."""
    kind = values.dtype.kind
    if values.ndim != 1:
        raise SequencesError(f"column {name} should have one value in a row, got {values.ndim - 1}")
    if kind in "fiu":
        return Column(values.astype(np.float64))
    if kind in "Mm":
        known = values.astype("datetime64[us]" if kind == "M" else "timedelta64[us]")
        seconds = known.astype(np.int64) / 1e6
        return Column(np.where(np.isnat(known), np.nan, seconds), (), kind == "M")
    cells = tuple("" if one is None or one != one else str(one) for one in values.tolist())
    if kind == "O":
        known_values = [one for one in values.tolist() if one is not None and one == one]
        if known_values and all(type(one) in (int, float) for one in known_values):
            return Column(numbers(cells))
    builder = ColumnBuilder("words")
    builder.add(cells)
    return builder.finish()
