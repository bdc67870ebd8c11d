"""How sure a score on a test part is, and a difference between two."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rda.sequences.dataset import Counts, Numbers

DRAWS = 2000
LEVEL = 0.95
FEW = 20
"""Of fewer sequences a bootstrap draws intervals that are too narrow."""


def per_piece(values: Numbers, piece: Counts) -> Numbers:
    """(pieces, 2): the sum of the values of each sequence, and how many there are."""
    count = int(piece.max()) + 1 if len(piece) else 0
    sums = np.bincount(piece, values, minlength=count)
    return np.stack([sums, np.bincount(piece, minlength=count)], 1)


def interval(runs: Sequence[Numbers]) -> tuple[float, float, float]:
    """The mean over runs, and where it would lie with other test sequences and other seeds.

    A bootstrap over both: each draw takes runs and sequences again, with replacement. `runs` are
    the results of `per_piece` for the same sequences.
    """
    scores = _drawn(np.stack(list(runs)))
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return _mean(np.stack(list(runs))), float(low), float(high)


def difference(first: Sequence[Numbers], second: Sequence[Numbers]) -> tuple[float, float, float]:
    """The same for the first's mean less the second's, on the same drawn sequences."""
    one, other = np.stack(list(first)), np.stack(list(second))
    scores = _drawn(one) - _drawn(other)
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return _mean(one) - _mean(other), float(low), float(high)


def differs(first: Sequence[Numbers], second: Sequence[Numbers]) -> bool:
    """Whether the means differ by more than chance: zero lies outside the interval of their
    difference and, of few sequences, one is better on nearly all where they are not equal."""
    _, low, high = difference(first, second)
    outside = low > 0 or high < 0
    return outside and (len(first[0]) >= FEW or _sign_test(first, second) < 1 - LEVEL)


def can_confirm(pieces: int) -> bool:
    """Whether a paired test of so many sequences can find a difference at all: of few, not even
    one that is the same on each."""
    return pieces >= FEW or 2 / 2**pieces < 1 - LEVEL


def within(first: Sequence[Numbers], second: Sequence[Numbers], most: float) -> bool:
    """Whether the interval of their difference leaves out all that is larger than `most`. Few
    sequences do not show that."""
    _, low, high = difference(first, second)
    return len(first[0]) >= FEW and -most <= low and high <= most


def _sign_test(first: Sequence[Numbers], second: Sequence[Numbers]) -> float:
    """How probable so uneven a division of the sequences would be if either were as likely to be
    better on each."""
    one, other = (np.sum(list(runs), axis=0)[:, 0] / len(runs) for runs in (first, second))
    wins, losses = int((one > other).sum()), int((one < other).sum())
    count = wins + losses
    extreme = sum(math.comb(count, k) for k in range(min(wins, losses) + 1))
    return float(min(1.0, 2 * extreme / 2**count))


def wilson(share: float, count: int) -> tuple[float, float]:
    """Where a share of right answers lies after `count` sequences (Wilson, 1927)."""
    if not count:
        return 0.0, 1.0
    z = 1.959964  # of LEVEL
    middle = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return (middle - spread) / scale, (middle + spread) / scale


def _mean(runs: NDArray[np.float64]) -> float:
    sums, counts = runs[..., 0].sum(), runs[..., 1].sum()
    return float(sums / counts) if counts else float("nan")


def _drawn(runs: NDArray[np.float64]) -> Numbers:
    """(draws): the mean of each draw. The sequences drawn are the same for every call of a size."""
    count = runs.shape[1]
    sequences = np.random.Generator(np.random.PCG64(0)).integers(0, count, (DRAWS, count))
    which = np.random.Generator(np.random.PCG64(1)).integers(0, len(runs), (DRAWS, len(runs)))
    found = np.empty(DRAWS)
    for i in range(DRAWS):
        some = runs[which[i]][:, sequences[i]]
        found[i] = some[..., 0].sum() / max(some[..., 1].sum(), 1)
    return found
