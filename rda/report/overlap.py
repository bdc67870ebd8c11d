"""Curves that lie on each other, and the dashes that show all of them."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from rda.report.axis import Axis
from rda.report.points import Points

SAMPLES = 100
MARKER = 0.015
"""Width of a drawn marker, as a share of the picture."""
LINE = 0.01
"""Width of a drawn line, as a share of the height of the picture."""
LONG = 0.5
"""Two curves hide each other if they touch over this share of the shorter one."""


def layers(curves: Sequence[Points], axis: Axis) -> list[int]:
    """How many curves each one would hide.

    The first curve is drawn on top of all others. A curve of layer 0 hides nothing; one of
    layer 1 lies on a curve of layer 0, and so on. Dashes whose gaps grow with the layer leave
    every curve visible.
    """
    found = [0] * len(curves)
    for top in reversed(range(len(curves))):
        hidden = [
            found[below]
            for below in range(top + 1, len(curves))
            if _touching(curves[top], curves[below], axis) >= LONG
        ]
        found[top] = 1 + max(hidden) if hidden else 0
    return found


def _touching(one: Points, other: Points, axis: Axis) -> float:
    """The share of the shorter curve over which two curves are less than a line's width apart."""
    if not one.steps or not other.steps:
        return 0.0
    last = min(one.steps[-1], other.steps[-1])
    steps = [last * sample / SAMPLES for sample in range(1, SAMPLES + 1)]
    places = ((_place(one, step, axis), _place(other, step, axis)) for step in steps)
    return sum(abs(mine - theirs) < LINE for mine, theirs in places) / SAMPLES


def _place(curve: Points, step: float, axis: Axis) -> float:
    """The height of a curve at a step; not a number where it has none."""
    index = bisect_right(curve.steps, step) - 1
    place = axis.place(curve.values[index]) if index >= 0 else None
    return math.nan if place is None else place


def nested(places: Iterable[tuple[float, float]]) -> list[int]:
    """For each marker, how many earlier ones lie at the same place.

    Markers drawn larger by this number, the largest first, stay visible as rings.
    """
    before: list[tuple[float, float]] = []
    found = []
    for x, y in places:
        found.append(sum(abs(x - a) < MARKER and abs(y - b) < MARKER for a, b in before))
        before.append((x, y))
    return found
