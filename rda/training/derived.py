"""What commands find out with the weights of a run, kept in files beside its record.

Such a file names the weights that it was made with, and holds the SHA-256 of its own content: it is
written after the manifest of the run. Files of earlier versions have neither.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rda.files import read_plain, write_atomically
from rda.training.manifest import digest_of
from rda.training.record import MODEL
from rda.training.status import RecordError

WEIGHTS, SEAL = "weights", "sha256"


class Derived(NamedTuple):
    """The content of such a file."""

    content: dict[str, Any]
    sealed: bool
    """Whether it is certain that it is as it was written, and of these weights."""


def keep(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    """Write what was found with the weights of a run beside its record."""
    bound = {**content, WEIGHTS: digest_of(folder / MODEL)}
    path = folder / name
    write_atomically(path, (json.dumps({**bound, SEAL: _seal(bound)}) + "\n").encode())
    return path


def kept(folder: Path, name: str) -> Derived | None:
    """What was kept, if there is something.

    Raises:
        RecordError: it cannot be read, was changed since, or is of other weights.
    """
    path = folder / name
    try:
        content = json.loads(read_plain(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise RecordError(f"{path} cannot be read: it is not an object")
    if SEAL not in content:
        return Derived(content, sealed=False)
    if content.pop(SEAL) != _seal(content):
        raise RecordError(f"{path} is not as it was written")
    weights = content.pop(WEIGHTS, None)
    # A thinned run has no weights left; then its manifest holds this file.
    if (folder / MODEL).is_file() and weights != digest_of(folder / MODEL):
        raise RecordError(f"{path} is of other weights than those of the run")
    return Derived(content, sealed=True)


def is_sealed(folder: Path, name: str) -> bool:
    """Whether what was kept shows that it is as it was written."""
    found = kept(folder, name)
    return found is not None and found.sealed


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
