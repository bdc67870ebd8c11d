"""Tables of rows: CSV and Parquet files, and frames of pandas or polars."""

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from rda.sequences.columns import Column, ColumnBuilder, Table, column_of, moments, numbers
from rda.sequences.dataset import SequencesError

BLOCK = 20_000
"""Rows that are read at a time."""
DELIMITERS = ",;\t|"
MOST_COLUMNS = 100_000
BOMB = 200
"""A compressed file whose content is this many times as large is refused beyond LARGE bytes."""
LARGE = 1 << 30


def read_csv(paths: list[Path], encoding: str = "utf-8") -> Table:
    """Read every file twice: once to learn what its columns hold, once to keep them."""
    kinds = _kinds(paths, encoding)
    builders = {name: ColumnBuilder(kind) for name, kind in kinds.items()}
    files: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    for number, path in enumerate(paths):
        for block in _blocks(path, encoding):
            for name, cells in block.items():
                builders[name].add(cells)
            files.append(np.full(len(next(iter(block.values()))), number, dtype=np.int64))
    if not files:
        raise SequencesError(f"{paths[0]} has no rows below its header")
    columns = {name: builder.finish() for name, builder in builders.items()}
    return Table(columns, np.concatenate(files), tuple(path.stem for path in paths))


def _kinds(paths: list[Path], encoding: str) -> dict[str, str]:
    """What each column holds: numbers if all its cells are, else moments, else words."""
    kinds: dict[str, str] = {}
    first: dict[str, tuple[str, ...]] = {}
    for path in paths:
        for block in _blocks(path, encoding):
            if not kinds:
                kinds = dict.fromkeys(block, "numbers")
            if list(kinds) != list(block):
                raise SequencesError(f"{path} has other columns than {paths[0]}")
            for name, cells in block.items():
                kinds[name] = _kind(kinds[name], cells, first.setdefault(name, cells))
    return kinds


def _kind(so_far: str, cells: tuple[str, ...], first: tuple[str, ...]) -> str:
    """The first of numbers, moments and words that all cells fit."""
    for kind, parse in (("numbers", numbers), ("moments", moments)):
        if so_far in (kind, "numbers"):
            try:
                parse(cells)
                if kind != so_far:
                    parse(first)  # the earlier cells were read as numbers
            except (ValueError, OverflowError):
                continue
            return kind
    return "words"


def _blocks(path: Path, encoding: str) -> Iterator[dict[str, tuple[str, ...]]]:
    """The rows of a file as columns of cells, some thousand rows at a time."""
    with _opened(path, encoding) as file:
        try:
            yield from _parsed(path, file)
        except UnicodeDecodeError as error:
            raise SequencesError(
                f"{path} is not written in {encoding}: encoding should name another, such as "
                "latin-1 or utf-16"
            ) from error
        except csv.Error as error:
            raise SequencesError(f"{path} cannot be read as a table: {error}") from error
        except (EOFError, gzip.BadGzipFile, OSError) as error:
            raise SequencesError(f"{path} cannot be read: {error}") from error


def _parsed(path: Path, file: IO[str]) -> Iterator[dict[str, tuple[str, ...]]]:
    start = file.read(1 << 16)
    if not start.strip():
        raise SequencesError(f"{path} is empty")
    if "\0" in start:
        raise SequencesError(f"{path} holds NUL characters: it is not a table of text")
    delimiter = max(DELIMITERS, key=start.splitlines()[0].count)
    rows = csv.reader(_lines(start, file), delimiter=delimiter, strict=True)
    head = next(rows)
    if len(head) > MOST_COLUMNS:
        raise SequencesError(f"{path} has {len(head):,} columns, more than {MOST_COLUMNS:,}")
    named = not _all_numbers(head)
    names = _names(path, head) if named else [f"column {i + 1}" for i in range(len(head))]
    waiting = [] if named else [head]
    line = len(waiting)
    while block := waiting + [row for row in islice(rows, BLOCK) if row]:
        waiting = []
        for row in block:
            line += 1
            if len(row) != len(names):
                raise SequencesError(
                    f"row {line:,} of {path} has {len(row):,} cells, and there are {len(names):,} "
                    "columns"
                )
        yield dict(zip(names, zip(*block, strict=True), strict=True))


def _lines(start: str, file: IO[str]) -> Iterator[str]:
    """The lines of a file of which some characters were read already."""
    begun = start.splitlines(keepends=True)
    yield from begun[:-1]
    yield begun[-1] + file.readline() if begun[-1][-1:] != "\n" else begun[-1]
    yield from file


def _all_numbers(cells: list[str]) -> bool:
    try:
        numbers(tuple(cells))
    except ValueError:
        return False
    return any(cell.strip() for cell in cells)


def _names(path: Path, head: list[str]) -> list[str]:
    names = [cell.strip() or f"column {i + 1}" for i, cell in enumerate(head)]
    twice = (
        next((name for name in names if names.count(name) > 1), None)
        if len(set(names)) < len(names)
        else None
    )
    if twice is not None:
        raise SequencesError(f"{path} has two columns with the name {twice!r}")
    return names


@contextmanager
def _opened(path: Path, encoding: str) -> Iterator[IO[str]]:
    """The text of a file, uncompressed where it is a .gz."""
    name = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    try:
        raw: Any = path.open("rb")
    except OSError as error:
        raise SequencesError(f"{path} cannot be read: {error.strerror}") from error
    with raw:
        content = raw
        if path.suffix == ".gz":
            content = _Bounded(gzip.GzipFile(fileobj=raw), path)
        try:
            yield io.TextIOWrapper(content, encoding=name, newline="")
        except LookupError as error:
            raise SequencesError(f"there is no encoding {encoding!r}") from error


class _Bounded(io.BufferedReader):
    """Uncompressed bytes, until there are far too many of them for the file they come from."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file)
        self._path, self._read = path, 0

    def _count(self, block: bytes) -> bytes:
        self._read += len(block)
        if self._read > max(LARGE, BOMB * self._path.stat().st_size):
            raise SequencesError(
                f"{self._path} unpacks to more than {BOMB} times its size: unpack it first if that "
                "is meant"
            )
        return block

    def read(self, size: int | None = -1, /) -> bytes:
        return self._count(super().read(size))

    def read1(self, size: int = -1, /) -> bytes:
        return self._count(super().read1(size))


def read_parquet(paths: list[Path]) -> Table:
    """Whole files: a column is one array."""
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError:
        raise SequencesError(
            "Parquet needs the package pyarrow: pip install 'rda-torch[parquet]'"
        ) from None
    try:
        read = [parquet.read_table(path) for path in paths]
    except (ArrowException, OSError) as error:
        raise SequencesError(f"{paths[0]} cannot be read as Parquet: {error}") from error
    names = read[0].column_names
    if any(one.column_names != names for one in read):
        raise SequencesError(f"the files have other columns than {paths[0]}")
    if len(set(names)) < len(names):
        raise SequencesError(f"{paths[0]} has two columns with one name")
    columns = {}
    for name in names:
        pieces = [_array(one[name], name) for one in read]
        columns[name] = column_of(np.concatenate(pieces), name)
    files = np.repeat(np.arange(len(read)), [one.num_rows for one in read])
    return Table(columns, files.astype(np.int64), tuple(path.stem for path in paths))


def _array(column: Any, name: str) -> np.ndarray[Any, Any]:
    """A column of Arrow as numpy has it; missing numbers are NaN."""
    try:
        if hasattr(column.type, "value_type"):  # to_numpy gives what is missing the first word
            column = column.cast(column.type.value_type)
        found: np.ndarray[Any, Any] = column.to_numpy()
    except (NotImplementedError, ValueError, TypeError) as error:
        raise SequencesError(f"column {name} cannot be read: {error}") from error
    return found


def from_frame(frame: Any) -> Table:
    """A frame of pandas or polars."""
    columns: dict[str, Column] = {}
    for name in frame.columns:
        if str(name) in columns:
            raise SequencesError(f"the frame has two columns with the name {name!r}")
        columns[str(name)] = column_of(np.asarray(frame[name].to_numpy()), str(name))
    if not columns or not len(frame):
        raise SequencesError("the frame is empty")
    return Table(columns, np.zeros(len(frame), dtype=np.int64), ("frame",))
