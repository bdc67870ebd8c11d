"""Sequences that were read already, and those that a program holds in memory."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

from rda.sequences.dataset import Sequences, SequencesError
from rda.sequences.reading import paths_of, read
from rda.sequences.roles import Roles

IN_MEMORY = "memory:"
_held: dict[str, Sequences] = {}
_holders: dict[str, int] = {}
_counting = threading.Lock()


def hold(sequences: Sequences) -> str:
    """A name under which this process finds the sequences again, the same for the same ones."""
    name = IN_MEMORY + digest(sequences)[:16]
    with _counting:
        _held[name] = sequences
        _holders[name] = _holders.get(name, 0) + 1
    return name


@contextmanager
def held(sequences: Sequences) -> Iterator[str]:
    """As `hold`, only for as long as the context lasts: hundreds of fits keep nothing."""
    name = hold(sequences)
    try:
        yield name
    finally:
        with _counting:
            _holders[name] -= 1
            if not _holders[name]:
                del _held[name], _holders[name]


def read_once(data: str, roles: Roles, encoding: str) -> Sequences:
    """The sequences of files, or those held under a name; read again only if a file changed."""
    if data.startswith(IN_MEMORY):
        if data not in _held:
            raise SequencesError(
                f"{data} was given by a program and is in no file: only that program can go on"
            )
        return _held[data]
    try:
        stats = [(path, path.stat()) for path in paths_of(data)]
    except OSError as error:  # removed just now
        raise SequencesError(f"{data} cannot be read: {error.strerror}") from error
    stamps = tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in stats)
    return _read(data, roles, encoding, stamps)


@lru_cache(maxsize=1)
def _read(
    data: str, roles: Roles, encoding: str, stamps: tuple[tuple[Path, int, int], ...]
) -> Sequences:
    return read(data, roles, encoding=encoding)


def digest(sequences: Sequences) -> str:
    """What tells these sequences from others: their values, lengths, names and targets."""
    found = hashlib.sha256()
    names = [(channel.name, channel.categories) for channel in sequences.channels]
    found.update(repr((names, sequences.values.shape)).encode())
    found.update(np.ascontiguousarray(sequences.values).data)
    found.update(sequences.lengths.tobytes())
    if sequences.target is not None:
        target = sequences.target
        found.update(repr((target.name, target.classes, target.every_step)).encode())
        found.update(target.values.tobytes())
    return found.hexdigest()
