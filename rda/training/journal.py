"""A file of JSON lines that only grows, and can be taken back to where a checkpoint knew it."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class JournalError(RuntimeError):
    """The file is not what was written."""


class Journal:
    """Appends rows, and knows the length and SHA-256 of all that it holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)  # what a full disk refuses is not kept here
        self._digest = hashlib.sha256()
        self._length = 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row through to the system; it survives a kill, not yet a power cut."""
        content = (json.dumps(row) + "\n").encode()
        written = 0
        while written < len(content):
            written += self._file.write(content[written:])
        self._digest.update(content)
        self._length += len(content)

    def mark(self) -> dict[str, Any]:
        """Where the file stands, once it is safe on the disk."""
        os.fsync(self._file.fileno())
        return {"bytes": self._length, "sha256": self._digest.hexdigest()}

    def take_back_to(self, mark: Mapping[str, Any] | None) -> bytes:
        """Drop what was written after `mark` (all, for None); returns what is left."""
        length = 0 if mark is None else int(mark["bytes"])
        kept = self.path.read_bytes()[:length]
        self._digest = hashlib.sha256(kept)
        self._length = length
        if mark is not None and self._digest.hexdigest() != mark["sha256"]:
            raise JournalError(f"{self.path} is not as it was written")
        self._file.truncate(length)
        return kept

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
