"""What is to be learned from sequences, and the pieces of them that each part consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rda.sequences.dataset import Counts, Sequences, SequencesError, Target, target_of
from rda.sequences.splitting import Shares, split

MOST_LABELS = 1_000
"""A model has an output for each, and a comparison a table of all pairs."""
PARTS = ("train", "validation", "test")


def problem_of(sequences: Sequences, asked: str) -> str:
    """The problem that the target shows; an error where it is not the one asked for."""
    target = sequences.target
    if target is None:
        if asked in ("auto", "forecast"):
            return "forecast"
        if sequences.found.forecast:
            raise SequencesError(
                f"no column is left as an input from which {sequences.found.forecast} could be "
                f"learned as the problem {asked}: it can be forecast"
            )
        raise SequencesError(
            f"there is no target: name its column with target to learn a {asked}, or forecast"
        )
    if asked == "forecast":
        return "forecast"
    if len(target.classes) > MOST_LABELS:
        raise SequencesError(
            f"{target.name} has {len(target.classes):,} different labels, and at most "
            f"{MOST_LABELS:,} can be learned: it looks like a name"
        )
    kind = "label" if target.classes else "number"
    found = kind + "s" if target.every_step else kind
    if asked not in ("auto", found):
        return _other(sequences, asked, found)
    return found


def as_asked(sequences: Sequences, asked: str) -> Sequences:
    """The sequences with whole numbers as labels or as numbers, whichever the problem asks for."""
    target = sequences.target
    if target is None or asked in ("auto", "forecast"):
        return sequences
    return replace(sequences, target=of_kind(target, labels=asked.startswith("label")))


def of_kind(target: Target, labels: bool) -> Target:
    """The target with its whole numbers as labels, or with its labels as numbers; as it is where
    they are not such."""
    if labels == bool(target.classes):
        return target
    if labels:
        known = target.values[np.isfinite(target.values)]
        are_whole = len(known) > 0 and not np.any(known % 1)
        named = target.name, target.every_step
        return target_of(target.values, *named, labels=True) if are_whole else target
    try:
        numbers = np.array([*map(float, target.classes), np.nan])
    except ValueError:
        return target
    if not np.isfinite(numbers[:-1]).all():
        return target
    places = np.where(np.isnan(target.values), len(target.classes), target.values).astype(np.int64)
    return replace(target, values=numbers[places], classes=())


def _other(sequences: Sequences, asked: str, found: str) -> str:
    raise SequencesError(
        f"{sequences.target.name if sequences.target else 'target'} is a {found.rstrip('s')} for "
        f"each {'step' if found.endswith('s') else 'sequence'}, which is not the problem {asked}"
    )


@dataclass(frozen=True)
class Pieces:
    """Stretches of steps that are read from their beginning."""

    starts: Counts
    lengths: Counts
    scored_from: Counts
    """How many steps of each are only read: a forecast for the test part begins before it."""
    limits: Counts
    """The step, counted over all sequences, before which all that is forecast must lie."""


@dataclass(frozen=True)
class Divided:
    """The pieces of each part."""

    parts: Mapping[str, Pieces]
    members: Mapping[str, Counts]
    """The sequences of each part; the same for all parts of a forecast, which is split by time."""

    def count(self, part: str) -> int:
        """How many pieces a part has."""
        return len(self.parts[part].starts)

    @staticmethod
    def of(sequences: Sequences, division: Mapping[str, Any]) -> "Divided":
        """As the settings of a task say."""
        shares = Shares(division["validation"], division["test"])
        if division["problem"] == "forecast":
            return _by_time(sequences, shares, division["horizon"], division["window"])
        members = split(sequences, division["split"], shares)
        starts = sequences.starts
        parts = {}
        for part, some in members.items():
            lengths = sequences.lengths[some]
            parts[part] = Pieces(
                starts[some], lengths, np.zeros_like(lengths), starts[some] + lengths
            )
        return Divided(parts, members)


def _by_time(sequences: Sequences, shares: Shares, horizon: int, window: int) -> Divided:
    """Each series in order: windows of its first steps train, the next validate, the last test.

    What is forecast belongs to one part alone. What is read to forecast it may lie before.
    """
    lengths, starts = sequences.lengths, sequences.starts
    test, validation = (
        np.maximum((lengths * share).astype(np.int64), horizon if share else 0)
        for share in (shares.test, shares.validation)
    )
    train = lengths - test - validation
    long_enough = train > horizon
    if not long_enough.any():
        raise SequencesError(
            f"no series is long enough to forecast {horizon} steps: the longest has {lengths.max()}"
        )
    members = np.flatnonzero(long_enough)
    rows: dict[str, list[tuple[int, int, int, int]]] = {part: [] for part in PARTS}
    for i in members:
        start, end = int(starts[i]), int(train[i])
        size = min(window, end)
        firsts = {*range(0, end - size + 1, max(size // 4, 1)), end - size}
        rows["train"] += [(start + first, size, 0, start + end) for first in sorted(firsts)]
        for part, more in (("validation", validation[i]), ("test", test[i])):
            if not more:
                continue
            # The forecast made at step t is of the steps t + 1 to t + horizon.
            rows[part].append((start, end + int(more), end - 1, start + end + int(more)))
            end += int(more)
    parts = {
        part: Pieces(*np.array(some, dtype=np.int64).reshape(-1, 4).T)
        for part, some in rows.items()
    }
    return Divided(parts, dict.fromkeys(PARTS, members.astype(np.int64)))
