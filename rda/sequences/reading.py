"""Files, arrays and frames as sequences."""

import glob
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rda.names import unknown_name
from rda.sequences.array_files import ARRAYS, read_arrays
from rda.sequences.columns import Table
from rda.sequences.dataset import (
    Sequences,
    SequencesError,
    from_arrays,
    looks_like_labels,
    target_of,
    text_of,
    whole_numbers,
)
from rda.sequences.extremes import without_infinities
from rda.sequences.parquet_files import read_parquet
from rda.sequences.recognising import recognised, told_of_sequence, told_of_time
from rda.sequences.roles import Roles
from rda.sequences.rows import from_table
from rda.sequences.series_a_row import from_series_a_row, has_series_a_row
from rda.sequences.tables import from_frame, read_csv, read_csv_in_parts
from rda.sequences.ts_files import read_ts

READERS = {".csv": "table", ".tsv": "table", ".txt": "table", ".parquet": "parquet", ".ts": "ts"}
READERS |= {".npz": "npz", ".npy": "npz"}


UNTOLD = Roles()


def read(data: Any, roles: Roles = UNTOLD, *, encoding: str = "utf-8") -> Sequences:
    """Sequences from a file, a folder, a pattern, a frame, or a mapping of arrays.

    Args:
        data: a path to .csv, .tsv, .parquet, .npz or .ts (also .csv.gz), a folder or a pattern of
            such files; a frame of pandas or polars; or a mapping with `X`, and `y`, `lengths`,
            `groups`, `ids` and `channels` where there are any.
        roles: what the columns of a table are for.
        encoding: of text files.

    Raises:
        SequencesError: the data cannot be used; one line says why.
    """
    try:
        if isinstance(data, Mapping):
            found = from_mapping(data)
        elif hasattr(data, "columns"):
            found = _of_table(partial(from_frame, data), roles)
        else:
            found = _read_files(paths_of(data), roles, encoding)
    except MemoryError:
        where = data if isinstance(data, str | Path) else "the data"
        raise SequencesError(f"{where} does not fit into memory") from None
    _check_text(found)
    return found


def read_in_parts(
    data: Any, roles: Roles = UNTOLD, *, encoding: str = "utf-8"
) -> Iterator[Sequences]:
    """As `read`, some sequences at a time where the data is a table of text."""
    if isinstance(data, str | Path):
        paths = paths_of(data)
        in_rows = roles.found is not None and roles.found.series_a_row
        if {_kind(path) for path in paths} == {"table"} and not in_rows:
            for table in read_csv_in_parts(paths, encoding, roles):
                found = from_table(table)
                _check_text(found)
                yield found
            return
    yield read(data, roles, encoding=encoding)


def _check_text(found: Sequences) -> None:
    """Names and words must be such that they can be written to a file."""
    words = [*found.ids, *(found.target.classes if found.target else ())]
    for channel in found.channels:
        words += [channel.name, *channel.categories]
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise SequencesError(f"{word!r} holds half a character, which no file can") from error


def _read_files(paths: list[Path], roles: Roles, encoding: str) -> Sequences:
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise SequencesError(f"the files are of several kinds: {', '.join(sorted(kinds))}")
    kind = kinds.pop()
    if kind == "table":
        return _of_table(partial(read_csv, paths, encoding), roles)
    if kind == "parquet":
        return _of_table(partial(read_parquet, paths), roles)
    if kind == "ts":
        return read_ts(paths, encoding)
    if len(paths) > 1:
        raise SequencesError(f"one .npz file holds all sequences, got {len(paths)}")
    return from_mapping(read_arrays(paths[0]))


def _of_table(read_with: Callable[[Roles], Table], roles: Roles) -> Sequences:
    """Sequences from a table, with what its values tell where they were not yet looked at."""
    if roles.found is not None and roles.found.series_a_row:
        return from_series_a_row(read_with(Roles(found=roles.found)))
    table = read_with(roles)
    if roles.found is not None:
        told = told_of_sequence(table.roles, roles, len(table.names))
        told += told_of_time(table.roles, roles)
        return from_table(replace(table, notes=(*table.notes, *told)))
    if roles == Roles(forecast=roles.forecast) and has_series_a_row(table):
        return from_series_a_row(table)
    table = recognised(table, roles)
    name = table.found.sequence
    if name and not table.columns[name].words:  # 01 and 1 are two names
        again = Roles(sequence=name, features=table.roles.features[:1], found=table.found)
        table = replace(table, columns={**table.columns, name: read_with(again).columns[name]})
    return from_table(table)


def _kind(path: Path) -> str:
    packed = path.suffix.lower() == ".gz"
    kind = READERS.get((path.with_suffix("") if packed else path).suffix.lower(), "")
    if not kind or (packed and kind not in ("table", "ts")):
        raise SequencesError(
            f"{path} should be a file of {', '.join(READERS)}, or one of text as .csv.gz"
        )
    return kind


def paths_of(data: Any) -> list[Path]:
    """A file, the files of a folder, or those that fit a pattern."""
    try:
        place = Path(data).expanduser()
        if place.is_file():
            return [place]
        folder = place.is_dir()
        found = place.iterdir() if folder else map(Path, glob.glob(str(place)))
        paths = sorted(path for path in found if path.is_file() and path.name[:1] != ".")
        if not paths and not folder and place.exists():
            raise SequencesError(f"{data} is neither a file nor a folder: it cannot be read twice")
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, SequencesError):
            raise
        raise SequencesError(f"{data!r} cannot be read: {error}") from error
    if not paths:
        raise SequencesError(f"there is no file {'in the folder ' if folder else ''}{data}")
    return paths


def from_mapping(data: Mapping[str, Any]) -> Sequences:
    """Arrays by name: `X` and `y` as in `from_arrays`; or `X` (steps, channels) with `lengths`."""
    for name in data:
        if name not in ARRAYS:
            raise SequencesError(unknown_name("array", str(name), ARRAYS))
    if "X" not in data:
        raise SequencesError(
            f"there should be an array X, got {', '.join(map(str, data)) or 'none'}"
        )
    sequences, target, lengths = data["X"], data.get("y"), data.get("lengths")
    if lengths is not None and _is_flat(sequences, lengths):
        ends = np.cumsum(lengths)[:-1]
        if target is not None and np.ndim(target) and len(target) == len(sequences):
            target = np.split(np.asarray(target), ends)
        sequences, lengths = np.split(np.asarray(sequences), ends), None
    found = from_arrays(
        sequences, target, lengths=lengths, groups=data.get("groups"),
        ids=_names(data, "ids"), channels=_names(data, "channels"),
    )  # fmt: skip
    found = replace(found, values=without_infinities(found.values))
    return found if found.target is None else _as_labels(found)


def _names(data: Mapping[str, Any], which: str) -> list[str]:
    found = np.asarray(data.get(which, []))
    if found.ndim != 1 or found.dtype.kind not in "fiubUSO":
        raise SequencesError(f"{which} should be a list of names, got {found.dtype} {found.shape}")
    return [text_of(one) for one in found.tolist()]


def _is_flat(sequences: Any, lengths: Any) -> bool:
    """Whether an array has the steps of all sequences, one after the other."""
    counts = whole_numbers(lengths, "lengths")
    if not isinstance(sequences, np.ndarray) or sequences.dtype == object:
        return False
    steps = len(sequences) if sequences.ndim in (1, 2) else 0
    if len(counts) == steps or np.any((counts < 1) | (counts > steps)):
        return False
    return int(counts.sum()) == steps


def _as_labels(found: Sequences) -> Sequences:
    target = found.target
    if target is None or target.classes or not looks_like_labels(target.values):
        return found
    labelled = target_of(target.values, target.name, target.every_step, labels=True)
    return replace(found, target=labelled)
