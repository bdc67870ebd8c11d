"""Finds the copies of a file in a folder, and unpacks one without trusting its content."""

import gzip
import hashlib
import itertools
import os
import struct
import zipfile
import zlib
from pathlib import Path

from rda.data.catalogue import Dataset, File
from rda.data.errors import BadFileError, why

PACKINGS = ("", ".gz", ".zip")

CORRUPT = (
    OSError, EOFError, RuntimeError, ValueError, struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
"""What the standard library raises for damaged archives (RuntimeError: for encrypted ones)."""


def copies(file: File, dataset: Dataset, folder: Path) -> list[Path]:
    """The files in `folder` and its usual sub-folders that have the name of a copy of `file`."""
    homes = ("", dataset.name, dataset.name.upper())
    candidates = (
        folder / home / raw / f"{spelling}{packing}"
        for home, raw in itertools.product(homes, ("", "raw"))
        for packing in PACKINGS
        for spelling in _spellings(file)
    )
    return [path for path in candidates if os.path.isfile(path)]


def read_any(paths: list[Path], file: File) -> tuple[Path, bytes]:
    """The first good copy and its content; if none is good, the error of the first one."""
    errors = []
    for path in paths:
        try:
            return path, read(path, file)
        except BadFileError as error:
            errors.append(error)
    raise errors[0]


def read(path: Path, file: File) -> bytes:
    """The unpacked content of `path`, after it is compared with the catalogue."""
    try:
        content = _unpacked(path, file, file.size + 1)
    except CORRUPT as error:
        unopened = isinstance(error, OSError) and error.filename is not None
        verdict = "cannot be read" if unopened else "is truncated or corrupt"
        raise BadFileError(path, file, f"{verdict} ({why(error)})") from error
    if len(content) != file.size:
        found = f"only {len(content)}" if len(content) < file.size else f"more than {file.size}"
        raise BadFileError(path, file, f"has the wrong size ({found} bytes of content)")
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise BadFileError(path, file, f"has the wrong content (SHA-256 {digest})")
    return content


def largest_packed(file: File) -> int:
    """A size no packed `file` exceeds: deflate adds less than a thousandth, headers a few bytes."""
    return file.size + file.size // 1000 + 65536


def _unpacked(path: Path, file: File, limit: int) -> bytes:
    """At most `limit` bytes of the content, whatever the archive declares.

    The packing is read from the first bytes, not from the name: some browsers unpack a .gz and
    keep its name.
    """
    with open(path, "rb") as packed:
        if os.fstat(packed.fileno()).st_size > largest_packed(file):
            raise BadFileError(path, file, f"is too large (over {largest_packed(file)} bytes)")
        magic = packed.read(2)
        packed.seek(0)
        if magic == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=packed) as content:
                return content.read(limit)
        if magic == b"PK":
            with zipfile.ZipFile(packed) as members, members.open(_member(members, file)) as member:
                return member.read(limit)
        return packed.read(limit)


def _member(members: zipfile.ZipFile, file: File) -> zipfile.ZipInfo:
    for member in members.infolist():
        if os.path.basename(member.filename) in _spellings(file):
            # With other methods, zipfile may unpack far more than `limit` bytes at once.
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile("packed with neither store nor deflate")
            return member
    raise zipfile.BadZipFile(f"it has no member {file.name}")


def _spellings(file: File) -> tuple[str, ...]:
    """The names of `file`: MNIST's are also in use with a dot, as in train-images.idx3-ubyte."""
    return tuple(dict.fromkeys((file.name, file.name.replace("-idx", ".idx"))))
