"""Files, arrays and frames as sequences."""

import glob
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rda.names import unknown_name
from rda.sequences.dataset import (
    Sequences,
    SequencesError,
    from_arrays,
    looks_like_labels,
    target_of,
)
from rda.sequences.roles import Roles, from_table
from rda.sequences.tables import from_frame, read_csv, read_parquet
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
            return from_mapping(data)
        if hasattr(data, "columns"):
            return from_table(from_frame(data), roles)
        return _read_files(paths_of(data), roles, encoding)
    except MemoryError:
        raise SequencesError(f"{data} does not fit into memory") from None


def _read_files(paths: list[Path], roles: Roles, encoding: str) -> Sequences:
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise SequencesError(f"the files are of several kinds: {', '.join(sorted(kinds))}")
    kind = kinds.pop()
    if kind == "table":
        return from_table(read_csv(paths, encoding), roles)
    if kind == "parquet":
        return from_table(read_parquet(paths), roles)
    if kind == "ts":
        return read_ts(paths)
    if len(paths) > 1:
        raise SequencesError(f"one .npz file holds all sequences, got {len(paths)}")
    return from_mapping(_read_npz(paths[0]))


def _kind(path: Path) -> str:
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in READERS:
        raise SequencesError(
            f"{path} should be a file of {', '.join(READERS)}, or one of text as .csv.gz"
        )
    return READERS[suffix.lower()]


def paths_of(data: Any) -> list[Path]:
    """A file, the files of a folder, or those that fit a pattern."""
    try:
        place = Path(data).expanduser()
        if place.is_file():
            return [place]
        found = place.iterdir() if place.is_dir() else map(Path, glob.glob(str(place)))
        paths = sorted(path for path in found if path.is_file() and path.name[:1] != ".")
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise SequencesError(f"{data!r} cannot be read: {error}") from error
    if not paths:
        raise SequencesError(f"there is no file {data}")
    return paths


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return {"X": found}
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        if "Object arrays" in str(error):
            raise SequencesError(
                f"{path} holds Python objects, which are not opened because they may run code: "
                "save one flat array X (steps, channels) with lengths"
            ) from error
        raise SequencesError(f"{path} cannot be read as arrays: {error}") from error


def from_mapping(data: Mapping[str, Any]) -> Sequences:
    """Arrays by name: `X` and `y` as in `from_arrays`; or `X` (steps, channels) with `lengths`."""
    known = ("X", "y", "lengths", "groups", "ids", "channels")
    for name in data:
        if name not in known:
            raise SequencesError(unknown_name("array", str(name), known))
    if "X" not in data:
        raise SequencesError(f"there should be an array X, got {', '.join(map(str, data))}")
    sequences, target, lengths = data["X"], data.get("y"), data.get("lengths")
    if lengths is not None and _is_flat(sequences, lengths):
        ends = np.cumsum(lengths)[:-1]
        if target is not None and len(target) == len(sequences) != len(lengths):
            target = np.split(np.asarray(target), ends)
        sequences, lengths = np.split(np.asarray(sequences), ends), None
    names = {name: [str(one) for one in data[name]] for name in ("ids", "channels") if name in data}
    found = from_arrays(
        sequences, target, lengths=lengths, groups=data.get("groups"),
        ids=names.get("ids", ()), channels=names.get("channels", ()),
    )  # fmt: skip
    return found if found.target is None else _as_labels(found)


def _is_flat(sequences: Any, lengths: Any) -> bool:
    """Whether an array has the steps of all sequences, one after the other."""
    if not isinstance(sequences, np.ndarray) or sequences.dtype == object:
        return False
    total = int(np.sum(lengths))
    return sequences.ndim <= 2 and len(sequences) == total and len(sequences) != len(lengths)


def _as_labels(found: Sequences) -> Sequences:
    target = found.target
    if target is None or target.classes or not looks_like_labels(target.values):
        return found
    labelled = target_of(target.values, target.name, target.every_step, labels=True)
    return replace(found, target=labelled)
