"""Learning curves as data: which columns, how smooth, in which colour and dash."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rda.labels import UNIT_LABELS
from rda.report.axis import LARGEST, Axis
from rda.report.colours import unit_colours
from rda.report.overlap import layers
from rda.report.points import NO_POINTS, Clock, Points, smoothed, smoothing_window, thinned
from rda.report.reading import GoalLine, Run
from rda.report.summary import labels
from rda.training.status import ENDED

LOG_FROM = 10.0
"""A logarithmic axis helps if the largest value is this many times the smallest."""
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1.2), (5, 1.2, 1, 1.2))
"""For the first, second, ... run of one unit."""
LAYERS: tuple[tuple[float, ...], ...] = ((), (4, 4), (2, 6))
"""For a curve that would hide another one, which shows through its gaps."""


@dataclass(frozen=True)
class Curve:
    """One column of one run."""

    label: str
    colour: str
    smooth: Points
    """The trailing mean."""
    raw: Points = NO_POINTS
    """Single batches."""
    validation: Points = NO_POINTS
    goal: tuple[int, float] | None = None
    """The first batch that reached the goal."""
    cut_short: tuple[int, float] | None = None
    """The last point of a run that did not come to its end."""
    dash: tuple[float, ...] = ()
    """Lengths of dashes and gaps in widths of the line; empty for a solid line."""
    clock: Clock = Clock()  # noqa: RUF009 (frozen)


@dataclass(frozen=True)
class Panel:
    """The curves that share a pair of axes."""

    column: str
    curves: tuple[Curve, ...]
    goal: GoalLine | None = None
    window: int = 1
    """Number of batches in the trailing mean."""
    linear: bool = False
    """Whether the values are never drawn on a logarithmic axis."""
    reach: float = math.inf
    """How far above the lowest value the axis goes; what is higher is drawn at the upper edge."""

    @property
    def title(self) -> str:
        """What the vertical axis shows."""
        name = self.column.replace("_", " ")
        if self.window > 1:
            name += f", mean of {self.window} batches"
        highest = self._highest
        if any(value > highest for value in self._drawn):
            name += f", above {highest:.3g} at the upper edge"
        return name

    @property
    def empty(self) -> bool:
        """Whether no value can be drawn."""
        return not any(abs(v) < LARGEST for curve in self.curves for v in curve.smooth.values)

    @property
    def log(self) -> bool:
        """Whether a logarithmic axis helps."""
        if self.linear:
            return False
        drawn = [value for curve in self.curves for value in curve.smooth.values]
        drawn = [value for value in drawn if 0 < value < LARGEST]
        return (
            not self.column.endswith("accuracy")
            and bool(drawn)
            and max(drawn) >= LOG_FROM * min(drawn)
        )

    @property
    def vertical(self) -> Axis:
        """The axis of values: 0 to 1 for an accuracy, otherwise around the curves and the goal."""
        if self.column.endswith("accuracy"):
            return Axis(0.0, 1.0)
        highest = self._highest
        return Axis.over((min(value, highest) for value in self._drawn), self.log)

    @property
    def _highest(self) -> float:
        return min((value for value in self._drawn if value < LARGEST), default=0.0) + self.reach

    @property
    def _drawn(self) -> list[float]:
        drawn = [value for curve in self.curves for value in curve.smooth.values]
        drawn += [value for curve in self.curves for value in curve.raw.values[-1:]]
        if self.goal is not None:
            drawn.append(self.goal.threshold)
        return drawn

    @property
    def horizontal(self) -> Axis:
        """The axis of steps, from 0."""
        ends = [step for curve in self.curves for step in curve.smooth.steps[-1:]]
        return Axis(0.0, max(1.0, *ends) if ends else 1.0)


def build_panels(runs: Sequence[Run]) -> tuple[Panel, ...]:
    """The loss of runs of one task and, where it is another column, the metric."""
    in_order = sorted(runs, key=lambda run: (unit_order(run.unit), run.name))
    columns = dict.fromkeys(("loss", runs[0].task.metric))
    panels = [_panel(column, in_order) for column in columns]
    return tuple(_with_dashes(panels, [run.unit for run in in_order]))


def panel_of(column: str, runs: Sequence[Run], reach: float = math.inf) -> Panel:
    """One column of runs of one task. A column of evaluations has no single batches behind it."""
    in_order = sorted(runs, key=lambda run: (unit_order(run.unit), run.name))
    whole = replace(_panel(column, in_order), reach=reach)
    (panel,) = _with_dashes([whole], [run.unit for run in in_order])
    return panel


def unit_order(unit: str) -> tuple[int, str]:
    """The paper's order of units; others follow by name."""
    known = UNIT_LABELS.index(unit) if unit in UNIT_LABELS else len(UNIT_LABELS)
    return known, unit


def _panel(column: str, runs: Sequence[Run]) -> Panel:
    window = max(_window(run, column) for run in runs)
    names = labels(runs)
    colours = unit_colours(run.unit for run in runs)
    curves = tuple(
        _curve(run, column, label, colours[run.unit], window)
        for run, label in zip(runs, names, strict=True)
    )
    goal = runs[0].task.goal
    return Panel(column, curves, goal if goal and goal.column == column else None, window)


def _window(run: Run, column: str) -> int:
    """Batches in a mean; a thinned record has the means of those between its kept steps."""
    means = run.means(column).steps
    return means[-1] // len(means) if means else smoothing_window(len(run.curve(column).steps))


def _curve(run: Run, column: str, label: str, colour: str, window: int) -> Curve:
    ended = run.state in ENDED
    points = run.curve(column)
    smooth = run.means(column) if run.means(column).steps else smoothed(points, window)
    return Curve(
        label=label if ended else f"{label}, {run.state}",
        colour=colour,
        smooth=smooth,
        raw=thinned(points),
        validation=thinned(run.curve(f"validation_{column}")),
        goal=_goal_point(run, column, points),
        cut_short=None if ended else _last_finite(smooth),
        clock=run.clock,
    )


def _goal_point(run: Run, column: str, points: Points) -> tuple[int, float] | None:
    step, goal = run.goal_step, run.task.goal
    if step is None or goal is None or goal.column != column or step not in points.steps:
        return None
    return step, points.values[points.steps.index(step)]


def _last_finite(points: Points) -> tuple[int, float] | None:
    pairs = zip(reversed(points.steps), reversed(points.values), strict=True)
    return next(((step, value) for step, value in pairs if abs(value) < LARGEST), None)


def _with_dashes(panels: Sequence[Panel], units: Sequence[str]) -> list[Panel]:
    """The same dash for a run in all panels: by its repeat of a unit, or by what it would hide."""
    repeats = [units[:place].count(unit) for place, unit in enumerate(units)]
    firsts = [place for place, repeat in enumerate(repeats) if repeat == 0]
    depths = [0] * len(units)
    for panel in panels:
        found = layers([panel.curves[place].smooth for place in firsts], panel.vertical)
        for place, depth in zip(firsts, found, strict=True):
            depths[place] = max(depths[place], depth)
    dashes = [
        DASHES[repeat % len(DASHES)] if repeat else LAYERS[depth % len(LAYERS)]
        for repeat, depth in zip(repeats, depths, strict=True)
    ]
    return [
        replace(
            panel,
            curves=tuple(
                replace(curve, dash=dash) for curve, dash in zip(panel.curves, dashes, strict=True)
            ),
        )
        for panel in panels
    ]
