"""What a forecast is made from: changes since the last value, and levels where they tell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rda.sequences.columns import taken_for_words
from rda.sequences.dataset import Channel, Counts, Numbers, Sequences, SequencesError
from rda.sequences.preparing import standards
from rda.sequences.roles import listed

RUNNING = 50
"""Steps of the running mean that stands for the level of a series that drifts."""
DRIFT = 1.0
"""A series drifts if the mean of its last quarter is this many deviations from the mean before."""

BLOCK = 10
"""Steps of a series whose forecasts count as one when the spread of errors is estimated."""


@dataclass(frozen=True)
class Backtest:
    """Forecasts of one column over a test part, each made where the one before ends."""

    column: str
    before: list[float]
    """The last values before the first forecast."""
    true: list[float]
    predicted: list[float]
    low: list[float]
    high: list[float]
    made_at: list[int]
    """The places in `true` at which a new forecast begins."""
    held: float
    """The share of all true values of the test part, forecast from every step, in the interval."""


def blocks(steps: Any, series: Any, horizon: int) -> Any:
    """The number of the stretch of time in which a forecast is made: errors of neighbouring steps
    are alike, and must not be taken for independent ones."""
    return series * (1 << 40) + steps // max(horizon, BLOCK)


def change_of(name: str) -> str:
    """The name of the input that holds the change of a column since the step before."""
    return f"change of {name}"


def forecast_columns(sequences: Sequences, asked: str) -> list[int]:
    """The columns to be forecast: those asked for, separated by commas, or all of numbers."""
    names = [channel.name for channel in sequences.channels]
    wanted = listed(asked)
    for name in wanted:
        if name not in names:
            raise SequencesError(f"{name} should be one of {', '.join(names[:20])}")
    found = [
        i
        for i, channel in enumerate(sequences.channels)
        if (channel.name in wanted if wanted else not channel.categories)
    ]
    if not found or any(sequences.channels[i].categories for i in found):
        asked_for = [sequences.channels[i] for i in found] or sequences.channels
        words = [channel for channel in asked_for if channel.categories]
        why = [taken_for_words(channel.name, channel.categories) for channel in words]
        known = "; ".join(filter(None, why)) or f"{words[0].name} holds words"
        raise SequencesError(f"only columns of numbers can be forecast: {known}")
    return found


def last_known(column: Numbers, lengths: Counts) -> Numbers:
    """The last finite value up to each step of each sequence; NaN before the first."""
    place = np.where(np.isfinite(column), np.arange(len(column)), -1)
    firsts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    place = np.maximum.accumulate(np.maximum(place, firsts - 1))
    known = place >= firsts
    return np.where(known, column[np.where(known, place, 0)], np.nan)


def drifts(column: Numbers, lengths: Counts) -> bool:
    """Whether the series have no level of their own, so that past levels do not come back."""
    found = []
    for piece in np.split(column, np.cumsum(lengths)[:-1]):
        known = piece[np.isfinite(piece)]
        before, last = np.split(known, [len(known) * 3 // 4])
        if len(before) > 3 and len(last) and before.std() > 0:
            found.append(abs(last.mean() - before.mean()) / before.std())
    return bool(found) and float(np.median(found)) > DRIFT


def standards_of_changes(levels: Numbers, lengths: Counts, horizon: int) -> tuple[Numbers, Numbers]:
    """Mean and deviation of what a column is above its last value, (horizon x columns)."""
    found = []
    last = np.stack([last_known(column, lengths) for column in levels.T], 1)
    steps = np.arange(len(levels))
    ends = np.repeat(np.cumsum(lengths), lengths)
    for ahead in range(1, horizon + 1):
        inside = steps[steps + ahead < ends]
        for change in (levels[inside + ahead] - last[inside]).T:
            known = change[np.isfinite(change)]
            found.append(standards(known) if len(known) else (0.0, 1.0))
    means, deviations = np.array(found).T
    return means, deviations


def with_changes(
    sequences: Sequences, columns: Sequence[str], drifting: Sequence[str]
) -> Sequences:
    """The sequences as a forecast reads them.

    Each column that is forecast gets one more channel, its change since the value before. Where it
    drifts, its level becomes its distance from a running mean: in training no unit has seen the
    levels that it would meet later.
    """
    names = [channel.name for channel in sequences.channels]
    values, changes = sequences.values.copy(), []
    for name in columns:
        i = names.index(name)
        column = sequences.values[:, i]
        known = last_known(column, sequences.lengths)
        before = np.concatenate(([np.nan], known[:-1]))
        before[sequences.starts] = np.nan
        change = np.where(np.isnan(before), 0.0, column - before)
        changes.append(np.where(np.isfinite(column), change, np.nan))
        if name in drifting:
            values[:, i] = column - _running_mean(known, sequences.lengths)
    channels = (*sequences.channels, *(Channel(change_of(name)) for name in columns))
    return replace(sequences, values=np.column_stack([values, *changes]), channels=channels)


def _running_mean(known: Numbers, lengths: Counts) -> Numbers:
    """The mean of the last values up to each step, without what came before the first one."""
    found = np.empty_like(known)
    start = 0
    for length in lengths.tolist():
        piece = known[start : start + length]
        there = ~np.isnan(piece)
        first = piece[there][0] if there.any() else 0.0
        sums = np.cumsum(np.where(there, piece - first, 0.0))
        counts = np.cumsum(there)
        sums[RUNNING:] -= sums[:-RUNNING].copy()
        counts[RUNNING:] -= counts[:-RUNNING].copy()
        found[start : start + length] = first + sums / np.maximum(counts, 1)
        start += length
    return found


def next_values(levels: Numbers, lengths: Counts, horizon: int) -> Numbers:
    """(steps, horizon, columns): the values after each step; NaN beyond the end of a sequence."""
    steps = np.arange(len(levels))[:, None] + np.arange(1, horizon + 1)
    inside = steps < np.repeat(np.cumsum(lengths), lengths)[:, None]
    found = levels[np.where(inside, steps, 0)]
    return np.where(inside[..., None] & np.isfinite(found), found, np.nan)
