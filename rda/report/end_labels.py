"""The names of curves at their ends, placed so that none covers another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rda.report.curves import Curve, Panel
from rda.report.geometry import HEIGHT, Place, Scale

LINE_HEIGHT = 15
"""Pixels between two labels."""
OUTSIDE_FROM = 60.0
"""A curve that ends at this place or further right, in per cent, has its label outside the plot."""
NEAR = 12.0
"""Labels whose curves end within this share of the width, in per cent, form a block."""
LONGEST = 24
"""Longer labels are cut; the legend has them whole."""


@dataclass(frozen=True)
class Label:
    """A curve's name near its end, and the end to which a thin line leads."""

    text: str
    colour: str
    end: Place
    place: Place
    outside: bool
    """Whether the name stands right of the plot."""


def end_labels(panel: Panel, scale: Scale) -> tuple[Label, ...]:
    """Names at the ends of the curves; none if there is no room for all of them."""
    ends = [(curve, end) for curve in panel.curves if (end := _end(curve, scale)) is not None]
    if len(ends) > HEIGHT // LINE_HEIGHT:
        return ()
    outside = [pair for pair in ends if pair[1].x >= OUTSIDE_FROM]
    inside = [pair for pair in ends if pair[1].x < OUTSIDE_FROM]
    outside.sort(key=lambda pair: pair[1].y)
    # Of curves that end at about the same height the rightmost comes first, so that the thin
    # lines do not cross each other.
    inside.sort(key=lambda pair: (round(pair[1].y * HEIGHT / 100 / LINE_HEIGHT), -pair[1].x))
    return (*_placed(inside, outside=False), *_placed(outside, outside=True))


def _placed(ends: Sequence[tuple[Curve, Place]], outside: bool) -> Iterator[Label]:
    """Labels at their heights; names that stand close together begin at one place."""
    heights = _spread([end.y * HEIGHT / 100 for _, end in ends])
    blocks: list[list[int]] = []
    for index, height in enumerate(heights):
        near = (
            index > 0
            and height - heights[index - 1] < 1.2 * LINE_HEIGHT
            and abs(ends[index][1].x - ends[index - 1][1].x) < NEAR
        )
        blocks[-1].append(index) if near else blocks.append([index])
    for block in blocks:
        x = 100.0 if outside else max(ends[index][1].x for index in block)
        for index in block:
            curve, end = ends[index]
            place = Place(x, round(100 * heights[index] / HEIGHT, 2))
            yield Label(_shortened(curve.label), curve.colour, end, place, outside)


def _end(curve: Curve, scale: Scale) -> Place | None:
    """The last point of a curve that can be drawn."""
    points = zip(reversed(curve.smooth.steps), reversed(curve.smooth.values), strict=True)
    places = (scale.place(curve, *point) for point in points)
    return next((place for place in places if place is not None), None)


def _spread(heights: Sequence[float]) -> list[float]:
    """Heights in ascending order, moved as little as needed to be a line apart."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LINE_HEIGHT) if placed else height)
    lowest = HEIGHT - LINE_HEIGHT / 2
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], lowest)
        lowest = placed[index] - LINE_HEIGHT
    return placed


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
