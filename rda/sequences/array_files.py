"""Arrays of .npz and .npy files, which are looked at before they are loaded."""

import math
import os
import sys
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from rda.names import unknown_name
from rda.sequences.dataset import SequencesError
from rda.sequences.foreign import as_one_line
from rda.sequences.memory import require

npy: Any = npy_format  # whose functions have no types
ARRAYS = ("X", "y", "lengths", "groups", "ids", "channels")
ZIP = b"PK"
A_WORD = 100
"""Bytes of a label or a name while it is a Python object."""


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file by name; the one of a .npy file is X."""
    with as_one_line(path, "arrays"), path.open("rb") as file:
        packed = file.read(len(ZIP)) == ZIP
        file.seek(0)
        if not packed:
            _check(file, os.fstat(file.fileno()).st_size, path, "X")
            file.seek(0)
            return {"X": _read(file, path, "X")}
        found: dict[str, NDArray[Any]] = {}
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name not in ARRAYS:
                    raise SequencesError(f"{path}: {unknown_name('array', name, ARRAYS)}")
                if name in found:
                    raise SequencesError(f"{path} has two arrays with the name {name}")
                with archive.open(member) as content:
                    _check(content, member.file_size, path, name)
                with archive.open(member) as content:
                    found[name] = _read(content, path, name)
        return found


def _read(file: IO[bytes], path: Path, name: str) -> NDArray[Any]:
    """The array; words are looked at, as numpy hands on what is no character at all."""
    found: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    if found.dtype.kind == "U" and found.size:
        codes = np.ascontiguousarray(found).ravel().view(f"{found.dtype.byteorder}u4")
        if codes.max() > sys.maxunicode:
            raise SequencesError(f"{path} is damaged: {name} holds what is not a character")
    return found


def _check(file: IO[bytes], size: int, path: Path, name: str) -> None:
    """What the array's header promises, before any of it is believed."""
    version = npy.read_magic(file)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise SequencesError(
            f"{path} holds Python objects, which are not opened because they may run code: "
            "save one flat array X (steps, channels) with lengths"
        )
    if any(type(one) is not int or one < 0 for one in shape) or not dtype.itemsize:
        raise SequencesError(f"{path}: {name} has no shape that an array can have")
    count = math.prod(shape)
    if count * dtype.itemsize > size:
        raise SequencesError(
            f"{path} is damaged: {name} should have {count:,} values of {dtype}, and there are "
            f"{size:,} bytes"
        )
    further = 8 if name == "X" else A_WORD
    require(count * (dtype.itemsize + further), f"{name} of {path}")
