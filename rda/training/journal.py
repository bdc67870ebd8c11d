"""A file of JSON lines that only grows, and that can be cut back to where a checkpoint was made."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rda.files import plain, read_plain
from rda.training.status import is_count


class JournalError(RuntimeError):
    """The file was changed by someone else."""


def as_line(row: Mapping[str, Any]) -> bytes:
    """A row as it stands in the file."""
    return (json.dumps(row) + "\n").encode()


class Journal:
    """Appends rows, and knows the length and the SHA-256 of the whole file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Unbuffered: a full disk is noticed at once.
        self._file = open(path, "ab", buffering=0, opener=plain)  # noqa: SIM115
        self._digest = hashlib.sha256()
        self._length = 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Hand a row to the operating system; it survives a kill, but not yet a power cut."""
        content = as_line(row)
        written = 0
        while written < len(content):
            written += self._file.write(content[written:])
        self._digest.update(content)
        self._length += len(content)

    def mark(self) -> dict[str, Any]:
        """The length and the SHA-256 of the file, once all of it is on the disk."""
        os.fsync(self._file.fileno())
        return self._place()

    def _place(self) -> dict[str, Any]:
        return {"bytes": self._length, "sha256": self._digest.hexdigest()}

    def go_back_to(self, mark: Mapping[str, Any] | None) -> bytes:
        """What was written before `mark` (nothing, for None); `cut` removes the rest."""
        length = mark.get("bytes") if isinstance(mark, Mapping) else None
        kept = read_plain(self.path)[: length if is_count(length) else 0]
        self._digest = hashlib.sha256(kept)
        self._length = len(kept)
        if mark is not None and mark != self._place():
            raise JournalError(f"{self.path} is not as it was written")
        return kept

    def cut(self) -> None:
        """Remove what was written after the mark to which this went back."""
        self._file.truncate(self._length)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
