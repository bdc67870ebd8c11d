"""What a person is told when a file of a data set cannot be had."""

from pathlib import Path

from rda.data.catalogue import File

BY_HAND = "put the files in a folder and point RDA_DATA or --data-dir at it"


class DataError(Exception):
    """A file cannot be had; the message is one line that says what to do."""

    def __init__(self, message: str) -> None:
        # A path or a server's reply may hold line ends.
        super().__init__(" ".join(message.splitlines()))


class BadFileError(DataError):
    """The file at `path` is not what the catalogue says, for `reason`."""

    def __init__(self, path: Path, file: File, reason: str) -> None:
        super().__init__(
            f"{path} {reason}; expected {file.size} bytes of content with SHA-256 {file.sha256}; "
            "replace it with a good copy, or remove it and run: rda data fetch"
        )
        self.path = path
        self.reason = reason


def why(error: BaseException) -> str:
    """The words of an error, without its number and its path."""
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
