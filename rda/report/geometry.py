"""The geometry of a chart on the page.

Places are percentages of the plot, so that a chart is as wide as its column and its text keeps
its size. Only the height is fixed, in pixels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rda.report.axis import Axis
from rda.report.curves import Curve

HEIGHT = 280
"""Height of the plot in pixels, without the numbers below it."""
ROOM = 0.04
"""Room above and below the curves, as a share of the height."""


class Place(NamedTuple):
    """A point of the plot in per cent, from the left and from the top."""

    x: float
    y: float


@dataclass(frozen=True)
class Scale:
    """From steps and values to places."""

    x: Axis
    y: Axis
    x_of_step: Callable[[Curve, int], float | None]

    def place(self, curve: Curve, step: int, value: float) -> Place | None:
        """Where a point of a curve lies, at the border if it is outside; None for no number."""
        x = self.x_of_step(curve, step)
        if x is None or not math.isfinite(value) or (self.y.log and value <= 0):
            return None
        across = self.x.place(min(max(x, self.x.low), self.x.high))
        upward = self.y.place(min(max(value, self.y.low), self.y.high))
        return Place(round(100 * (across or 0.0), 2), round(100 - 100 * (upward or 0.0), 2))
