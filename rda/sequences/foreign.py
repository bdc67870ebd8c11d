"""Errors of the packages that read files for us."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rda.sequences.dataset import SequencesError


@contextmanager
def as_one_line(path: Path, what: str) -> Iterator[None]:
    """Whatever a package raises for a damaged file, as one line.

    numpy, zipfile and pyarrow name no common error: a flipped bit may end in almost any of
    Python's, from OverflowError to tokenize.TokenError.
    """
    try:
        yield
    except (SequencesError, MemoryError):
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise SequencesError(f"{path} cannot be read as {what}: {reason}") from error
