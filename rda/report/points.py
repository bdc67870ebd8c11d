"""Values over steps: means, thinning, and the clock that turns steps into seconds."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MOST_POINTS = 999
"""A drawn curve has at most this many points."""


class Points(NamedTuple):
    """Values over steps."""

    steps: Sequence[int]
    values: Sequence[float]


NO_POINTS = Points((), ())


def over_steps(values: Sequence[float]) -> Points:
    """One value for each step, from step 1 on."""
    return Points(range(1, len(values) + 1), list(values))


@dataclass(frozen=True)
class Clock:
    """Seconds of training at each step, read between the timings of a run."""

    timings: tuple[tuple[int, float], ...] = ((0, 0.0),)

    @classmethod
    def from_timings(cls, timings: Iterable[tuple[int, float]]) -> "Clock":
        """A clock that starts at (0, 0) and leaves out timings that do not go forward."""
        kept = [(0, 0.0)]
        for step, seconds in timings:
            if step > kept[-1][0] and kept[-1][1] <= seconds < math.inf:
                kept.append((step, seconds))
        return cls(tuple(kept))

    def seconds(self, step: int) -> float | None:
        """The seconds at one step, in proportion between two timings; None after the last."""
        after = bisect_left(self.timings, (step, -math.inf))
        if after == len(self.timings):
            return None
        late_step, late = self.timings[after]
        if late_step == step:
            return late
        early_step, early = self.timings[after - 1]
        return early + (late - early) * (step - early_step) / (late_step - early_step)


def smoothing_window(batches: int) -> int:
    """A window so short that the trailing mean lags by less than a hundredth of the picture."""
    return max(1, batches // 60)


def smoothed(points: Points, window: int, most: int = MOST_POINTS) -> Points:
    """The mean of the last `window` values, fewer at the start, at evenly spread steps."""
    size = len(points.values)
    ends = sorted({size - size * part // most for part in range(most)} - {0})
    parts = (points.values[max(0, end - window) : end] for end in ends)
    means = [sum(part) / len(part) for part in parts]
    return Points([points.steps[end - 1] for end in ends], means)


def thinned(points: Points, most: int = MOST_POINTS) -> Points:
    """Few points that keep the look of many.

    Both ends stay, and of each stretch the lowest value, the highest value and the first value
    that is not finite.
    """
    size = len(points.steps)
    if size <= most:
        return points
    stretches = max((most - 2) // 3, 1)
    kept = {0, size - 1}
    for stretch in range(stretches):
        part = range(stretch * size // stretches, (stretch + 1) * size // stretches)
        kept.update(_extremes(part, points.values))
    order = sorted(kept)
    return Points([points.steps[i] for i in order], [points.values[i] for i in order])


def _extremes(part: range, values: Sequence[float]) -> Iterator[int]:
    finite = [i for i in part if math.isfinite(values[i])]
    if finite:
        yield min(finite, key=values.__getitem__)
        yield max(finite, key=values.__getitem__)
    if len(finite) < len(part):
        yield next(i for i in part if not math.isfinite(values[i]))
