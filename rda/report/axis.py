"""One axis of a drawing: its range, the place of a value on it, and round numbers to write."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

LARGEST = 1e38
"""Values beyond this, which is about the largest of float32, are not drawn."""
NEARLY_EQUAL = 1e-9


@dataclass(frozen=True)
class Tick:
    """A number that is written on an axis, and its place from 0 to 1."""

    value: float
    place: float
    text: str


@dataclass(frozen=True)
class Axis:
    """A range from `low` to `high`, which differ."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], log: bool = False) -> "Axis":
        """An axis that shows all the values that can be shown."""
        floor = 0.0 if log else -LARGEST
        shown = [value for value in values if floor < value < LARGEST]
        low, high = (min(shown), max(shown)) if shown else (1.0, 1.0)
        if high - low <= NEARLY_EQUAL * max(abs(low), abs(high), NEARLY_EQUAL):
            middle = max(abs(high), NEARLY_EQUAL)
            return cls(middle / 2, middle * 2, log) if log else cls(low - middle, high + middle)
        return cls(low, high, log)

    def widened(self, share: float) -> "Axis":
        """The same axis with room at both ends, as a share of its length."""
        if self.log:
            factor = (self.high / self.low) ** share
            return Axis(self.low / factor, self.high * factor, log=True)
        room = (self.high - self.low) * share
        return Axis(self.low - room, self.high + room)

    def place(self, value: float) -> float | None:
        """Where a value lies, from 0 to 1; None for a value outside of the range."""
        if not (self.low <= value <= self.high):
            return None
        if self.log:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(value) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[Tick]:
        """At most `most` round numbers, evenly spread."""
        return self._powers(most) if self.log else self._multiples(most)

    def _multiples(self, most: int) -> list[Tick]:
        exponent = math.floor(math.log10((self.high - self.low) / max(most, 1)))
        steps = (factor * 10.0**exponent for factor in (1, 2, 5, 10, 20))
        step = next(step for step in steps if (self.high - self.low) / step <= max(most - 1, 1))
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        decimals = max(0, -math.floor(math.log10(step)))
        readable = decimals <= 4 and max(abs(self.low), abs(self.high)) < 1e7
        values = (multiple * step for multiple in range(first, last + 1))
        return self._named(
            (value, f"{value:,.{decimals}f}" if readable else f"{value:.2g}") for value in values
        )

    def _powers(self, most: int) -> list[Tick]:
        lowest, highest = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        powers = [10.0**power for power in range(lowest, highest + 1)]
        for factors in ((1, 2, 5), (1,)):
            values = [factor * power for power in powers for factor in factors]
            ticks = self._named((value, f"{value:g}") for value in values)
            if len(ticks) <= most:
                return ticks
        return ticks[:: math.ceil(len(ticks) / max(most, 1))]

    def _named(self, numbers: Iterable[tuple[float, str]]) -> list[Tick]:
        places = ((value, self.place(value), text) for value, text in numbers)
        return [Tick(value, place, text) for value, place, text in places if place is not None]
