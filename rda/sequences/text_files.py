"""Lines of text files, plain or compressed, however long the file is."""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from rda.sequences.dataset import SequencesError

LONGEST_LINE = 1 << 25
"""Characters of a line; a longer one is taken for a file that has no lines."""
BOMB = 200
"""A compressed file whose content is this many times as large is refused beyond LARGE bytes."""
LARGE = 1 << 30


class Lines:
    """The lines of an open file, one after the other."""

    def __init__(self, path: Path, raw: IO[bytes], text: io.TextIOWrapper) -> None:
        self.path, self._raw, self._text = path, raw, text
        self.size = os.fstat(raw.fileno()).st_size
        """Of the file, in bytes."""
        self.characters = 0
        """How many were read."""

    @property
    def position(self) -> int:
        """Bytes of the file that were read; of a compressed file, of its compressed bytes."""
        return self._raw.tell()

    def __iter__(self) -> Iterator[str]:
        path = self.path
        try:
            for line in iter(partial(self._text.readline, LONGEST_LINE), ""):
                if len(line) == LONGEST_LINE:
                    raise SequencesError(
                        f"{path} has a line of more than {LONGEST_LINE:,} characters"
                    )
                self.characters += len(line)
                yield line
        except UnicodeError as error:
            raise SequencesError(
                f"{path} is not written in {self._text.encoding.removesuffix('-sig')}: encoding "
                "should name another, such as latin-1 or utf-16"
            ) from error
        except (EOFError, OSError, zlib.error) as error:
            raise SequencesError(f"{path} cannot be read: {error}") from error


@contextmanager
def opened(path: Path, encoding: str, errors: str = "strict") -> Iterator[Lines]:
    """The lines of a file, which is uncompressed where its name ends in .gz."""
    name = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    try:
        raw = path.open("rb")
    except OSError as error:
        raise SequencesError(f"{path} cannot be read: {error.strerror}") from error
    with raw:
        content: Any = raw
        if path.suffix.lower() == ".gz":
            content = _Unpacked(gzip.GzipFile(fileobj=raw), path)
        try:
            text = io.TextIOWrapper(content, encoding=name, errors=errors, newline="")
        except (LookupError, ValueError) as error:
            raise SequencesError(f"there is no encoding {encoding!r}") from error
        yield Lines(path, raw, text)


class _Unpacked(io.BufferedReader):
    """Uncompressed bytes, until there are far too many of them for the file they come from."""

    def __init__(self, file: gzip.GzipFile, path: Path) -> None:
        super().__init__(file)
        self._path, self._read = path, 0
        self._most = max(LARGE, BOMB * os.fstat(file.fileno()).st_size)

    def read1(self, size: int = -1, /) -> bytes:
        """What the text is decoded from."""
        block = super().read1(size)
        self._read += len(block)
        if self._read > self._most:
            raise SequencesError(
                f"{self._path} unpacks to more than {BOMB} times its size: unpack it first if that "
                "is meant"
            )
        return block
