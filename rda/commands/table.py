"""A table as comma-separated values that every reader reads as it was meant."""

import csv
import re
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""What a spreadsheet takes for a formula; with an apostrophe before it, it is text."""
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|nan)")


def write_table(rows: Iterable[Sequence[Any]], file: TextIO) -> None:
    """Write rows, each on a line, with text that no spreadsheet calculates."""
    # A writer quotes what ends a line, and of these only what its own lines end with.
    writer = csv.writer(_LineFeeds(file), lineterminator="\r\n")
    for row in rows:
        writer.writerow([harmless(cell) for cell in row])


def harmless(cell: Any) -> Any:
    """Text that could be a formula gets an apostrophe before it; other text and numbers stay.

    To have a text back, take away the first apostrophe where = + - @, a tab or a line end follows
    behind one or more of them.
    """
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


class _LineFeeds:
    """A file whose lines end with a line feed alone."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> int:
        return self._file.write(line.removesuffix("\r\n") + "\n")
