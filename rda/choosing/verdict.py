"""Runs and baselines side by side, and which unit to take, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rda.choosing.advice import advice
from rda.choosing.entries import Entry
from rda.sequences.understanding import Understanding
from rda.training.outcomes import Outcomes


@dataclass(frozen=True)
class Verdict:
    """What was found, the best first."""

    understanding: Understanding
    metric: str
    entries: tuple[Entry, ...]
    advice: str
    told: tuple[str, ...]
    """What was understood of the data."""
    recommended: Entry | None = None
    """The unit that the advice recommends; None where there is none."""

    @property
    def units(self) -> list[Entry]:
        """Without the baselines."""
        return [entry for entry in self.entries if entry.is_unit]


def verdict(
    understanding: Understanding, metric: str, entries: Sequence[Entry], told: Sequence[str]
) -> Verdict:
    """The entries ranked, and the advice that follows from them. Of the same score a unit comes
    before a baseline, and units in the order in which they were asked for."""
    sign = -1 if metric == "accuracy" else 1
    ranked = sorted(entries, key=lambda entry: (sign * entry.score.mean, not entry.is_unit))
    words, recommended = advice(ranked, metric, understanding.problem)
    return Verdict(understanding, metric, tuple(ranked), words, tuple(told), recommended)


def confusion(outcomes: Sequence[Outcomes], classes: Sequence[str]) -> list[list[int]]:
    """Rows are true classes, columns predicted ones, over all runs of a unit."""
    found = np.zeros((len(classes), len(classes)), dtype=int)
    for one in outcomes:
        np.add.at(found, (one.true.astype(int), one.predicted.astype(int)), 1)
    return [[int(count) for count in row] for row in found]
