"""A panel laid out for the page: every line, mark, label and number, over steps or over time."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rda.report.axis import Axis, Tick
from rda.report.curves import Curve, Panel
from rda.report.end_labels import Label, end_labels
from rda.report.geometry import ROOM, Place, Scale
from rda.report.overlap import nested
from rda.report.points import Points, thinned
from rda.report.wording import MISSING, count, duration, number

LINE_WIDTH = 2
SMOOTH_POINTS, RAW_POINTS, VALIDATION_POINTS = 200, 300, 60
SCALE = 1000
"""Lines are drawn in a square of this size, which the page stretches over the plot."""
MOVABLE = 2
"""Up to this many labels move from the right of the plot into it on a narrow screen."""
TIME_UNITS = ((3600, "hours"), (60, "minutes"), (1, "seconds"))


@dataclass(frozen=True)
class Mark:
    """A point that means something, and the words that say what."""

    place: Place
    colour: str
    radius: float
    text: str


@dataclass(frozen=True)
class Line:
    """A curve as SVG paths."""

    label: str
    colour: str
    dash: str
    smooth: str
    raw: str
    validation: str
    dots: tuple[Place, ...]
    """Evaluations on the validation data, or the only point of a curve."""
    values: str
    """The values of the points of `smooth`, with spaces between them."""


@dataclass(frozen=True)
class Chart:
    """One panel over steps or over time."""

    column: str
    title: str
    over: str
    description: str
    x: Axis
    x_title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    goal: float | None
    """Height of the goal's line in per cent from the top."""
    lines: tuple[Line, ...]
    goals: tuple[Mark, ...]
    cuts: tuple[Mark, ...]
    """Ends of runs that were cut short."""
    labels: tuple[Label, ...]
    table: tuple[tuple[str, ...], ...]
    """A heading and some rows with the values of all curves; empty if there are none."""

    @property
    def gutter(self) -> str:
        """How much room the names right of the plot need: "short", "medium" or "long"."""
        longest = max((len(label.text) for label in self.labels if label.outside), default=0)
        return "short" if longest <= 6 else "medium" if longest <= 15 else "long"

    @property
    def long(self) -> bool:
        """Whether the names leave no room for another chart beside this one."""
        return self.gutter == "long"

    @property
    def few(self) -> bool:
        """Whether the names right of the plot may move into it on a narrow screen."""
        return sum(label.outside for label in self.labels) <= MOVABLE


def over_steps(panel: Panel) -> Chart:
    """The panel with steps on the horizontal axis."""
    return _chart(panel, "steps", "step", lambda curve, step: float(step))


def over_characters(panel: Panel, characters_per_step: int) -> Chart:
    """The panel with the characters that were read on the horizontal axis."""
    millions = characters_per_step / 1e6
    return _chart(
        panel,
        "million characters",
        "million characters read",
        lambda curve, step: millions * step,
    )


def over_time(panel: Panel) -> Chart | None:
    """The panel with the time of training on the horizontal axis; None without any timing."""
    longest = max((curve.clock.timings[-1][1] for curve in panel.curves), default=0.0)
    if longest <= 0:
        return None
    size, name = next((size, name) for size, name in TIME_UNITS if longest >= 3 * size or size == 1)

    def elapsed(curve: Curve, step: int) -> float | None:
        seconds = curve.clock.seconds(step)
        return None if seconds is None else seconds / size

    return _chart(panel, name, f"{name} of training", elapsed)


def _chart(
    panel: Panel, over: str, x_title: str, x_of_step: Callable[[Curve, int], float | None]
) -> Chart:
    ends = (x_of_step(curve, step) for curve in panel.curves for step in curve.smooth.steps[-1:])
    x = Axis(0.0, max((end for end in ends if end is not None), default=0.0) or 1.0)
    scale = Scale(x, panel.vertical.widened(ROOM), x_of_step)
    goal = None if panel.goal is None else scale.y.place(panel.goal.threshold)
    return Chart(
        column=panel.column.replace("_", " "),
        title=panel.title,
        over=over,
        description=_description(panel),
        x=x,
        x_title=x_title,
        x_ticks=() if panel.empty else tuple(x.ticks(6)),
        y_ticks=tuple(scale.y.ticks(7)),
        goal=None if goal is None else 100 - 100 * goal,
        lines=tuple(_line(curve, scale) for curve in panel.curves),
        goals=_marks(panel, scale, lambda curve: curve.goal, "first batch at the goal"),
        cuts=_marks(panel, scale, lambda curve: curve.cut_short, "cut short"),
        labels=end_labels(panel, scale),
        table=() if panel.empty else tuple(_table(panel, x, over, x_of_step)),
    )


def _description(panel: Panel) -> str:
    """Where each curve ends, for people who do not see the chart."""
    ends = [
        f"{curve.label} ends at {number(curve.smooth.values[-1])}, step "
        f"{count(curve.smooth.steps[-1])}"
        for curve in panel.curves
        if curve.smooth.steps
    ]
    return f"{'; '.join(ends)}." if ends else "There is nothing to draw yet."


def _line(curve: Curve, scale: Scale) -> Line:
    smooth = _fewer(curve.smooth, SMOOTH_POINTS)
    drawn = [point for point in zip(*smooth, strict=True) if scale.place(curve, *point)]
    validation = thinned(curve.validation, VALIDATION_POINTS)
    single = smooth if len(drawn) == 1 else Points((), ())
    dots = (
        scale.place(curve, *point)
        for points in (validation, single)
        for point in zip(*points, strict=True)
    )
    return Line(
        label=curve.label,
        colour=curve.colour,
        dash=" ".join(f"{length * LINE_WIDTH:g}" for length in curve.dash),
        smooth=_path(curve, smooth, scale),
        raw=_path(curve, thinned(curve.raw, RAW_POINTS), scale),
        validation=_path(curve, validation, scale),
        dots=tuple(dot for dot in dots if dot is not None),
        values=" ".join(number(value) for _, value in drawn),
    )


def _fewer(points: Points, most: int) -> Points:
    """At most `most` points, evenly spread, the last among them."""
    size = len(points.steps)
    kept = sorted({size - 1 - size * part // most for part in range(most)} if size else ())
    return Points([points.steps[i] for i in kept], [points.values[i] for i in kept])


def _path(curve: Curve, points: Points, scale: Scale) -> str:
    """The path of an SVG; it begins anew after a value that cannot be drawn."""
    parts, pen = [], "M"
    for step, value in zip(*points, strict=True):
        place = scale.place(curve, step, value)
        if place is not None:
            parts.append(f"{pen}{place.x * SCALE / 100:.0f} {place.y * SCALE / 100:.0f}")
        pen = "M" if place is None else "L"
    return "".join(parts)


def _marks(
    panel: Panel,
    scale: Scale,
    point_of: Callable[[Curve], tuple[int, float] | None],
    meaning: str,
) -> tuple[Mark, ...]:
    """Marks of one kind, the largest first so that none hides another."""
    found = []
    for curve in panel.curves:
        point = point_of(curve)
        place = None if point is None else scale.place(curve, *point)
        if point is not None and place is not None:
            seconds = curve.clock.seconds(point[0])
            time = "" if seconds is None else f", {duration(seconds)}"
            found.append(
                (place, curve.colour, f"{curve.label}: {meaning}, step {count(point[0])}{time}")
            )
    rings = nested((place.x / 100, place.y / 100) for place, _, _ in found)
    marks = [
        Mark(place, colour, 4.5 + 3 * ring, text)
        for (place, colour, text), ring in zip(found, rings, strict=True)
    ]
    return tuple(sorted(marks, key=lambda mark: -mark.radius))


def _table(
    panel: Panel, x: Axis, over: str, x_of_step: Callable[[Curve, int], float | None]
) -> Iterator[tuple[str, ...]]:
    """The values of all curves at round places of the horizontal axis, and the last ones."""
    yield over, *(curve.label for curve in panel.curves)
    columns = []
    for curve in panel.curves:
        pairs = ((x_of_step(curve, step), value) for step, value in zip(*curve.smooth, strict=True))
        columns.append([(place, value) for place, value in pairs if place is not None])
    for tick in x.ticks(11):
        cells = [_value(column, tick.value) for column in columns]
        if any(cell != MISSING for cell in cells):
            yield tick.text, *cells
    yield "at the end", *(number(column[-1][1]) if column else MISSING for column in columns)


def _value(column: Sequence[tuple[float, float]], place: float) -> str:
    """The last value at or before a place; none before the first and after the last."""
    index = bisect_right(column, (place, math.inf)) - 1
    if index < 0 or place > column[-1][0]:
        return MISSING
    return number(column[index][1])
