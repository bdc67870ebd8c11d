"""Sequences that a model was trained on, recognised by what they hold, wherever they turn up.

Of each sequence of training a short digest is kept with the model. A series that is forecast is
known by stretches of its steps, so that more steps before or after them hide nothing.
"""

import base64
import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rda.sequences.dataset import Counts, Numbers, Sequences

SEEN = "seen"
"""The name of the digests among the facts of a run."""
LETTERS = 8
"""Of a digest: of a million sequences beside a million others, one in 280 such pairs of data has a
sequence that is taken for another."""
STRETCH = 16
"""Steps of a series that are recognised together."""
DIFFERENT = 8
"""Of them have to differ: zeros are found in any series of zeros."""


def digests_of(sequences: Sequences) -> str:
    """What tells each sequence from others, one after the other."""
    return "".join(map(_digest, _pieces(sequences)))


def digests_of_stretches(sequences: Sequences) -> tuple[str, str]:
    """What tells stretches of series from others: those that lie side by side, and the last ones,
    which show where training ended."""
    aside, last = [], []
    for piece in _pieces(sequences):
        firsts = range(0, len(piece) - STRETCH + 1, STRETCH)
        aside += [_digest_of_stretch(piece[first : first + STRETCH]) for first in firsts]
        last += [_digest_of_stretch(piece[-STRETCH:])] if firsts else []
    return "".join(aside), "".join(last)


def _digest_of_stretch(steps: Numbers) -> str:
    return _digest(steps) if len({row.tobytes() for row in steps}) >= DIFFERENT else ""


def seen_sequences(sequences: Sequences, digests: str) -> Counts:
    """The numbers of the sequences that have one of these digests."""
    known = _separate(digests)
    return np.flatnonzero([_digest(piece) in known for piece in _pieces(sequences)])


class SeenSteps(NamedTuple):
    """What of a series is recognised."""

    steps: int
    """How many lie in stretches that were part of training."""
    end: int
    """The step from which on none was: where training ended, or so far behind the last stretch
    that the next one would have been recognised."""


def seen_steps(sequences: Sequences, digests: str, last: str) -> list[SeenSteps]:
    """What of each series lies in a stretch with one of these digests."""
    ends = _separate(last)
    known = _separate(digests) | ends
    found = []
    for piece in _pieces(sequences):
        seen = np.zeros(len(piece), dtype=bool)
        end = 0
        for first in range(len(piece) - STRETCH + 1):
            digest = _digest(piece[first : first + STRETCH])
            if digest in known:
                seen[first : first + STRETCH] = True
                end = first + STRETCH + (0 if digest in ends else STRETCH - 1)
        found.append(SeenSteps(int(seen.sum()), min(end, len(piece))))
    return found


def _pieces(sequences: Sequences) -> Iterator[Numbers]:
    # There are several NaN and two zeros; their bytes differ and mean the same.
    values = np.where(np.isnan(sequences.values), np.nan, sequences.values + 0.0)
    for start, length in zip(sequences.starts, sequences.lengths, strict=True):
        yield values[start : start + length]


def _digest(values: Numbers) -> str:
    digest = hashlib.blake2b(values.tobytes(), digest_size=LETTERS * 6 // 8).digest()
    return base64.urlsafe_b64encode(digest).decode()


def _separate(digests: str) -> set[str]:
    return {digests[i : i + LETTERS] for i in range(0, len(digests), LETTERS)}
