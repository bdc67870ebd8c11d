"""Runs and baselines side by side, and which unit to take, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rda.choosing.statistics import differs, interval, per_piece, wilson
from rda.sequences.dataset import Numbers
from rda.sequences.understanding import Understanding
from rda.training.outcomes import Outcomes
from rda.training.record import Record

MUCH_QUICKER = 1.2
"""How many times as quick a unit has to be to be preferred to one that is as good."""


@dataclass(frozen=True)
class Score:
    """A mean over seeds on the test part, with where it would lie on other sequences."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} ({self.low:.3g} to {self.high:.3g})"


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

    @property
    def is_unit(self) -> bool:
        """Whether it is not a baseline."""
        return bool(self.records)


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


def entry_of(
    name: str, outcomes: Sequence[Outcomes], labels: bool, records: Sequence[Record] = ()
) -> Entry:
    """With its score: the share of right answers, or the mean absolute error."""
    results = []
    for one in outcomes:
        scores = one.true == one.predicted if labels else np.abs(one.true - one.predicted)
        results.append(per_piece(scores.astype(np.float64), one.piece))
    mean, low, high = interval(results)
    if labels:  # a draw of right answers alone is always right: the bootstrap sees no doubt
        few, many = wilson(mean, len(results[0]))
        low, high = min(low, few), max(high, many)
    score = Score(mean, low, high)
    return Entry(name, score, tuple(results), tuple(outcomes), tuple(records))


def verdict(
    understanding: Understanding, metric: str, entries: Sequence[Entry], told: Sequence[str]
) -> Verdict:
    """The entries ranked, and the advice that follows from them."""
    sign = -1 if metric == "accuracy" else 1
    ranked = sorted(entries, key=lambda entry: (sign * entry.score.mean, not entry.is_unit))
    advice, recommended = _advice(ranked, metric)
    return Verdict(understanding, metric, tuple(ranked), advice, tuple(told), recommended)


def _advice(ranked: Sequence[Entry], metric: str) -> tuple[str, Entry | None]:
    """In words, and the unit to take."""
    units = [entry for entry in ranked if entry.is_unit]
    if not units:
        return "No unit could be trained.", None
    first, rest = units[0], units[1:]
    what = "accuracy" if metric == "accuracy" else "mean absolute error"
    tied = [entry.name for entry in units if entry.score.mean == first.score.mean]
    have = "has" if len(tied) == 1 else "have"
    sentences = [f"{_listed(tied)} {have} the best {what} on the test part: {first.score}."]
    worse = [entry.name for entry in rest if differs(first.results, entry.results)]
    equal = [entry.name for entry in rest if entry.name not in worse]
    quickest = max((one for one in units if one.name not in worse), key=lambda one: one.speed)
    taken = quickest if quickest.speed > MUCH_QUICKER * first.speed else first
    if worse:
        sentences.append(f"{first.name} is better than {_listed(worse)}, and that is no accident.")
    if equal:
        choice = f"and none is much quicker: take {first.name}."
        if taken is not first:
            speeds = f"{taken.speed:.3g} steps a second, {first.name} {first.speed:.3g}"
            choice = f"so take {taken.name}, which is quicker ({speeds})."
        others = [name for name in equal if name not in tied]
        doubt = "They are equally good"
        if others:
            doubt = (
                f"The difference to {_listed(others)} is not significant: other sequences or seeds "
                "could turn it round"
            )
        sentences.append(f"{doubt}, {choice}")
    beside, is_needed = _beside_baselines(ranked, first)
    return " ".join((*sentences, *beside)), taken if is_needed else None


def _beside_baselines(ranked: Sequence[Entry], first: Entry) -> tuple[list[str], bool]:
    """In words, and whether a unit is of use at all."""
    simple = next((entry for entry in ranked if not entry.is_unit), None)
    if simple is None:
        return [], True
    if not differs(first.results, simple.results):
        return [
            f"But {simple.name} is as good, {simple.score}: no recurrent unit is needed for this, "
            "or there is too little data to show that one helps."
        ], False
    if ranked.index(simple) < ranked.index(first):
        return [f"But {simple.name} is better, {simple.score}: take that."], False
    return [f"The best baseline, {simple.name}, reaches {simple.score}."], True


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def confusion(outcomes: Sequence[Outcomes], classes: Sequence[str]) -> list[list[int]]:
    """Rows are true classes, columns predicted ones, over all runs of a unit."""
    found = np.zeros((len(classes), len(classes)), dtype=int)
    for one in outcomes:
        np.add.at(found, (one.true.astype(int), one.predicted.astype(int)), 1)
    return [[int(count) for count in row] for row in found]
