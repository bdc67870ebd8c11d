"""The SHA-256 of every file of a run that has ended, so that later damage is noticed.

`manifest.sha256` has the form that `sha256sum --check` reads.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from rda.files import plain, read_plain, write_atomically

MANIFEST = "manifest.sha256"
CHUNK = 1 << 20


def checksum_line(name: str, digest: str) -> str:
    """In the form that `sha256sum --check` reads."""
    return f"{digest}  {name}\n"


def write_manifest(folder: Path, names: Iterable[str], planned: Mapping[str, bytes]) -> None:
    """Seal the files of a folder. `planned` holds those that are about to be written."""
    lines = []
    for name in names:
        if name in planned:
            lines.append(checksum_line(name, hashlib.sha256(planned[name]).hexdigest()))
        elif (folder / name).is_file():
            lines.append(checksum_line(name, digest_of(folder / name)))
    write_atomically(folder / MANIFEST, "".join(lines).encode())


def damaged_files(folder: Path) -> list[str]:
    """The files that are not as they were sealed, or the manifest itself if it is damaged."""
    try:
        lines = read_plain(folder / MANIFEST).decode("ascii").splitlines()
        sealed = [(line[:64], line[66:]) for line in lines]
        if not sealed or any(len(line) < 67 or line[64:66] != "  " for line in lines):
            return [MANIFEST]
    except (OSError, UnicodeDecodeError):
        return [MANIFEST]
    return [name for digest, name in sealed if digest_of(folder / Path(name).name) != digest]


def digest_of(path: Path) -> str:
    """The SHA-256 of a file; empty where the file cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb", opener=plain) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()
