"""Tables of text, and frames of pandas or polars."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rda.sequences.columns import Column, ColumnBuilder, KindOfColumn, Table, column_of, numbers
from rda.sequences.dataset import SequencesError
from rda.sequences.found import NAMES_ALONE
from rda.sequences.memory import require, require_rows
from rda.sequences.moments import MISSING, is_moment
from rda.sequences.roles import Roles, understood
from rda.sequences.text_files import Lines, opened
from rda.wording import counted

BLOCK = 1 << 21
"""Characters of rows that are read at a time."""
DELIMITERS = ",;\t|"
MOST_COLUMNS = 100_000
PART = 50_000
"""Rows from which a part of a table is handed on."""
WORKING = 12
"""Numbers that are held for each row, beside the columns, while rows are put in order."""


@dataclass
class _Survey:
    """What a first look at the files has found."""

    roles: Roles
    kinds: dict[str, KindOfColumn]
    rows: list[int] = field(default_factory=list)
    """Of each file."""
    notes: list[str] = field(default_factory=list)
    header: tuple[str, ...] = ()
    headless: bool = False
    seen: set[str] = field(default_factory=set)
    """Names of sequences, and the last of them."""
    last: str = ""
    together: bool = True
    """Whether the rows of each sequence stand one after the other."""

    def see_names(self, cells: Sequence[str]) -> None:
        """Some more rows of the column that names sequences."""
        for cell in cells:
            if cell != self.last:
                self.together &= cell not in self.seen
                self.seen.add(cell)
                self.last = cell


def bytes_a_row(roles: Roles) -> int:
    """What a row takes: its columns, once more those that are inputs, and work space."""
    return 8 * (len(roles.columns) + len(roles.features) + WORKING)


def read_csv(paths: list[Path], encoding: str, roles: Roles) -> Table:
    """Read every file twice: once to learn how many rows it has and what its columns hold, once to
    keep those columns that have a role."""
    survey = _surveyed(paths, encoding, roles)
    found, rows = survey.roles, sum(survey.rows)
    builders = {name: ColumnBuilder(kind.name, rows) for name, kind in survey.kinds.items()}
    try:
        for path in paths:
            with opened(path, encoding) as lines:
                for block in _Rows(path, lines, roles).blocks(found):
                    for name, cells in block.items():
                        builders[name].add(cells)
                    # Words that are all different take more memory than their rows.
                    require(8 * rows * (len(found.features) + WORKING), str(path))
        columns = {name: builder.finish() for name, builder in builders.items()}
    except SequencesError:
        raise
    except (ValueError, KeyError, OverflowError) as error:
        raise SequencesError(f"{path} has changed while it was read: {error}") from error
    files = np.repeat(np.arange(len(paths)), survey.rows).astype(np.int64)
    return Table(
        columns, files, names_of(paths), found, bool(roles.features), tuple(survey.notes),
        survey.header, survey.headless,
    )  # fmt: skip


def read_csv_in_parts(paths: list[Path], encoding: str, roles: Roles) -> Iterator[Table]:
    """The same, some whole sequences at a time, so that memory does not grow with the file; at once
    where the rows of a sequence do not stand together, or all are one sequence."""
    survey = _surveyed(paths, encoding, roles, whole=False)
    found = survey.roles
    if not survey.together or not (found.sequence or len(paths) > 1):
        yield read_csv(paths, encoding, roles)
        return
    names = names_of(paths)
    waiting: dict[str, list[str]] = {name: [] for name in found.columns}
    files: list[int] = []

    def table(rows: int) -> Table:
        columns = {}
        for name, cells in waiting.items():
            builder = ColumnBuilder(survey.kinds[name].name, rows)
            builder.add(cells[:rows])
            columns[name] = builder.finish()
            del cells[:rows]
        numbers, of_rows = np.unique(files[:rows], return_inverse=True)
        del files[:rows]
        some = tuple(names[number] for number in numbers)
        notes = tuple(survey.notes)
        return Table(columns, of_rows.astype(np.int64), some, found, bool(roles.features), notes)

    for number, path in enumerate(paths):
        with opened(path, encoding) as lines:
            for block in _Rows(path, lines, roles).blocks(found):
                for name, cells in block.items():
                    waiting[name] += cells
                files += [number] * (len(next(iter(waiting.values()))) - len(files))
                begun = _last_sequence(waiting[found.sequence] if found.sequence else files)
                if begun >= PART:
                    yield table(begun)
    yield table(len(files))


def _last_sequence(names: Sequence[Any]) -> int:
    """The row at which the last sequence begins."""
    row = len(names) - 1
    while row > 0 and names[row - 1] == names[-1]:
        row -= 1
    return max(row, 0)


def _surveyed(paths: list[Path], encoding: str, roles: Roles, whole: bool = True) -> _Survey:
    """A first look at the files; an error where they do not fit into memory as a `whole`."""
    survey: _Survey | None = None
    sizes = [_size(path) for path in paths]
    total, bytes_read, rows = max(sum(sizes), 1), 0, 0
    for size, path in zip(sizes, paths, strict=True):
        with opened(path, encoding) as lines:
            table = _Rows(path, lines, roles)
            if survey is None:
                first = table.names
                found = understood(first, roles, len(paths) > 1)
                kinds = {name: KindOfColumn(name in found.names_only) for name in found.columns}
                survey = _Survey(found, kinds, header=tuple(first), headless=table.headless)
            elif table.names != first:
                raise SequencesError(f"{path} has other columns than {paths[0]}")
            if table.note:
                survey.notes.append(table.note)
            for block in table.blocks(survey.roles):
                for name, cells in block.items():
                    survey.kinds[name].see(cells)
                if not whole:
                    if survey.roles.sequence:
                        survey.see_names(block[survey.roles.sequence])
                    continue
                share = min((bytes_read + lines.position) / total, 1.0)
                require_rows(rows + table.rows, share, bytes_a_row(survey.roles), str(path))
            if not table.rows:
                raise SequencesError(f"{path} has no rows below its header")
            survey.rows.append(table.rows)
            bytes_read, rows = bytes_read + size, rows + table.rows
    assert survey is not None  # there is a file
    if whole:
        require(rows * bytes_a_row(survey.roles), str(paths[0]))
    return survey


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise SequencesError(f"{path} cannot be read: {error.strerror}") from error


def names_of(paths: list[Path]) -> tuple[str, ...]:
    """What the sequences of files are called: as the files, with their folders where needed."""
    stems = tuple(path.stem for path in paths)
    return stems if len(set(stems)) == len(stems) else tuple(map(str, paths))


class _Rows:
    """The rows of one file of text."""

    def __init__(self, path: Path, lines: Lines, roles: Roles) -> None:
        self.path, self._lines = path, lines
        self.rows = 0
        """How many were read."""
        self.note = ""
        head = self._start()
        if len(head) > MOST_COLUMNS:
            raise SequencesError(f"{path} has {len(head):,} columns, more than {MOST_COLUMNS:,}")
        self.headless = not _is_header(head, roles.found != NAMES_ALONE)
        """Whether the first row holds no names of columns."""
        self._waiting = [head] if self.headless else []
        if self.headless:
            head = [""] * len(head)
            self.note = f"the first row of {path} holds values: it is a step, not names of columns"
        self.names = [cell.strip() or f"column {i + 1}" for i, cell in enumerate(head)]
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise SequencesError(f"{path} has two columns with the name {twice[0]!r}")

    def _start(self) -> list[str]:
        lines = iter(self._lines)
        first = next((line for line in lines if line.strip()), "")
        if not first:
            raise SequencesError(f"{self.path} is empty")
        if "\0" in first:
            raise SequencesError(f"{self.path} holds NUL characters: it is not a table of text")
        delimiter = max(DELIMITERS, key=first.count)
        if self.path.name.lower().removesuffix(".gz").endswith(".tsv") and "\t" in first:
            delimiter = "\t"
        self._parsed = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        with self._as_one_line():
            return next(self._parsed)

    @contextmanager
    def _as_one_line(self) -> Iterator[None]:
        try:
            yield
        except csv.Error as error:
            raise SequencesError(f"{self.path} cannot be read as a table: {error}") from error

    def blocks(self, roles: Roles) -> Iterator[dict[str, tuple[str, ...]]]:
        """Columns of cells that have a role, some rows at a time."""
        place = {name: i for i, name in enumerate(self.names)}
        wanted = {name: place[name] for name in roles.columns}
        block = self._waiting
        while block := block + self._next_rows():
            yield self._columns(block, wanted)
            block = []

    def _next_rows(self) -> list[list[str]]:
        """Some rows, without empty lines; none at the end of the file."""
        block: list[list[str]] = []
        lines, end = self._lines, self._lines.characters + BLOCK
        with self._as_one_line():
            for row in self._parsed:
                if row:
                    block.append(row)
                    if lines.characters >= end:
                        break
        return block

    def _columns(
        self, block: list[list[str]], wanted: dict[str, int]
    ) -> dict[str, tuple[str, ...]]:
        width = len(self.names)
        for row in block:
            self.rows += 1
            if len(row) != width:
                raise SequencesError(
                    f"row {self.rows:,} of {self.path} has {counted(len(row), 'cell')}, and there "
                    f"are {width:,} columns"
                )
        columns = list(zip(*block, strict=True))
        return {name: columns[i] for name, i in wanted.items()}


def _is_header(cells: list[str], by_values: bool) -> bool:
    """Whether the first row has names: not only numbers and dates; or 0, 1, 2, ..., which frames
    without names write; or whole numbers that grow, after an empty cell for the frame's index."""
    values = [cell for cell in map(str.strip, cells) if cell.lower() not in MISSING]
    dates = [cell for cell in values if by_values and is_moment(cell) and not _are_numbers([cell])]
    if not _are_numbers([cell for cell in values if cell not in dates]):
        return True
    if dates and len(dates) == len(values):  # a column for each date
        return len(values) > 1 or not cells[0].strip()
    index = by_values and len(cells) > 1 and not cells[0].strip()
    names = [cell.strip() for cell in cells[index:]]
    if names == [str(i) for i in range(len(names))]:
        return index or len(cells) > 2
    grow = index and len(names) > 1 and all(map(str.isdecimal, names))
    return not any(map(str.strip, cells)) or (grow and names == sorted(set(names), key=int))


def _are_numbers(cells: Sequence[str]) -> bool:
    try:
        numbers(cells)
    except ValueError:
        return False
    return True


def from_frame(frame: Any, roles: Roles) -> Table:
    """A frame of pandas or polars."""
    there = {str(name): name for name in frame.columns}
    if len(there) < len(frame.columns):
        raise SequencesError("the frame has two columns with one name")
    if not there or not len(frame):
        raise SequencesError("the frame is empty")
    dates = _dates_of_rows(frame, roles)
    names = [name for name in dates if name not in there] + list(there)
    found = understood(names, roles, one_a_file=False)
    columns: dict[str, Column] = {}
    for name in found.columns:
        values = frame[there[name]].to_numpy() if name in there else dates[name]
        # Nobody asked for a column that is only looked at.
        with suppress(SequencesError) if name in found.looked_at else nullcontext():
            columns[name] = column_of(np.asarray(values), name, name in found.names_only)
    files = np.zeros(len(frame), dtype=np.int64)
    given = bool(roles.features)
    return Table(columns, files, ("frame",), found, given, header=tuple(names))


def _dates_of_rows(frame: Any, roles: Roles) -> dict[str, Any]:
    """An index of dates as a column, by its name; none that a model was not trained with."""
    index: Any = getattr(frame, "index", None)
    if not str(getattr(index, "dtype", "")).startswith(("datetime64", "period")):
        return {}
    name = "index" if index.name is None else str(index.name)
    known = roles.found is None or name in (roles.found.time, roles.time)
    return {name: index.values} if known else {}
