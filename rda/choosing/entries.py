"""What is compared: units and baselines, each with its score on the test part."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isinf

import numpy as np

from rda.choosing.statistics import interval, per_piece, wilson
from rda.sequences.dataset import Numbers
from rda.training.outcomes import Outcomes
from rda.training.record import Record


@dataclass(frozen=True)
class Score:
    """A mean over seeds on the test part, with where it would lie on other sequences."""

    mean: float
    low: float
    high: float
    """Both ends are infinite where nothing is known of other sequences."""

    def __str__(self) -> str:
        if isinf(self.low):
            return f"{self.mean:.4g} (no interval)"
        return f"{self.mean:.4g} ({self.low:.3g} to {self.high:.3g})"

    def overlaps(self, other: "Score") -> bool:
        """Whether the two intervals have a score in common."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Entry:
    """One unit, or one baseline."""

    name: str
    score: Score
    results: tuple[Numbers, ...]
    """For each run, the sum of scores of each test sequence and how many there are."""
    outcomes: tuple[Outcomes, ...]
    records: tuple[Record, ...] = ()
    """None for a baseline."""
    parameters: int = 0
    kept_bytes: int = 0
    """Memory that one training step keeps for its backward pass."""
    speed: float = 0.0
    """Training steps a second; 0 where it is not known."""
    may_help: str = ""
    """The option that would train for longer, where the loss was still falling at the end."""
    errors: tuple[float, ...] = ()
    """The mean absolute error of each column in its own unit, where several are forecast."""

    @property
    def is_unit(self) -> bool:
        """Whether it is not a baseline."""
        return bool(self.records)

    @property
    def pieces(self) -> int:
        """Sequences of the test part, or stretches of time of a forecast."""
        return len(self.results[0])


def entry_of(
    name: str,
    outcomes: Sequence[Outcomes],
    labels: bool,
    records: Sequence[Record] = (),
    scales: Sequence[float] | Numbers = (),
) -> Entry:
    """With its score: the share of right answers, or the mean absolute error; of several columns
    with `scales`, the mean of errors that are divided by the scale of their column."""
    results, columns = [], []
    for one in outcomes:
        scores = one.true == one.predicted if labels else np.abs(one.true - one.predicted)
        if len(scales):
            columns.append(per_piece(scores, one.column))
            scores = scores / np.asarray(scales)[one.column]
        results.append(per_piece(scores.astype(np.float64), one.piece))
    mean, low, high = interval(results)
    if labels:  # a draw of right answers alone is always right: the bootstrap sees no doubt
        few, many = wilson(mean, len(results[0]))
        low, high = min(low, few), max(high, many)
    elif len(results[0]) < 2:  # every draw of one is that one
        low, high = -inf, inf
    found = Entry(name, Score(mean, low, high), tuple(results), tuple(outcomes), tuple(records))
    if not columns:
        return found
    sums, counts = np.sum(columns, 0).T
    return replace(found, errors=tuple((sums / np.maximum(counts, 1)).tolist()))
