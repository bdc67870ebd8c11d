"""What a person is told when a file of a data set is not available."""

from pathlib import Path

from rda.data.catalogue import File
from rda.wording import printable

BY_HAND = "put the files in a folder and point RDA_DATA or --data-dir at it"
ANOTHER_FOLDER = "another folder with RDA_DATA or --data-dir"


class DataError(Exception):
    """A file is not available; the message is one line that says what to do."""

    def __init__(self, message: str) -> None:
        # A server's reply may hold line ends, and escape sequences that a terminal would obey.
        super().__init__(printable(message))


class DataWarning(UserWarning):
    """Something takes longer than it should; the message says what is waited for."""


class BadFileError(DataError):
    """The file at `path` is not what the catalogue says; `reason` says in what way."""

    def __init__(self, path: Path, file: File, reason: str) -> None:
        super().__init__(
            f"{path} {reason}; expected {file.size} bytes of content with SHA-256 {file.sha256}; "
            "replace it with a good copy, or remove it and run: rda data fetch"
        )
        self.path = path
        self.reason = printable(reason)


def why(error: BaseException) -> str:
    """The message of an error, without its number and its path."""
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
