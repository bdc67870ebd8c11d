"""Learning curves as data: which columns, smoothed, thinned, coloured. Drawn elsewhere."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rda.labels import UNIT_LABELS
from rda.report.axis import LARGEST
from rda.report.colours import COLOURS
from rda.report.summary import ENDED, labels
from rda.report.wording import printable
from rda.tasks.settings import Goal, TaskSettings
from rda.training.record import Record

MOST_POINTS = 999
"""Points of a curve that are drawn, at most."""
LOG_FROM = 10.0
"""A logarithmic axis helps where the largest value is so many times the smallest."""
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1.2), (5, 1.2, 1, 1.2))
"""For the first, second, ... run of one unit."""


class Points(NamedTuple):
    """Values over steps."""

    steps: Sequence[int]
    values: Sequence[float]


NO_POINTS = Points((), ())


@dataclass(frozen=True)
class Curve:
    """One column of one run."""

    label: str
    colour: str
    smooth: Points
    """The trailing mean."""
    raw: Points = NO_POINTS
    """Every batch."""
    validation: Points = NO_POINTS
    goal: tuple[int, float] | None = None
    """The first batch that reached the goal."""
    cut_short: tuple[int, float] | None = None
    """Where a run stands that did not come to its end."""
    repeat: int = 0
    """How many runs of the same unit come before."""

    @property
    def dash(self) -> tuple[float, ...]:
        """Lengths of dashes and gaps in widths of the line; none for a whole line."""
        return DASHES[self.repeat % len(DASHES)]


@dataclass(frozen=True)
class Panel:
    """The curves that share a pair of axes."""

    column: str
    curves: tuple[Curve, ...]
    goal: Goal | None = None
    window: int = 1
    """Batches in the trailing mean."""

    @property
    def title(self) -> str:
        """What the vertical axis shows."""
        return f"{self.column}, mean of {self.window} batches" if self.window > 1 else self.column

    @property
    def empty(self) -> bool:
        """Whether no value can be drawn."""
        return not any(abs(v) < LARGEST for curve in self.curves for v in curve.smooth.values)

    @property
    def log(self) -> bool:
        """Whether a logarithmic axis helps."""
        shown = [value for curve in self.curves for value in curve.smooth.values]
        shown = [value for value in shown if 0 < value < LARGEST]
        return self.column != "accuracy" and bool(shown) and max(shown) >= LOG_FROM * min(shown)


def panels(records: Sequence[Record]) -> tuple[Panel, ...]:
    """The loss, and the metric where that is another thing, of runs of one task."""
    task = shared_task(records)
    in_order = sorted(records, key=lambda run: (UNIT_LABELS.index(run.settings.unit), run.name))
    columns = dict.fromkeys(("loss", task.metric))
    return tuple(_panel(column, in_order) for column in columns)


def shared_task(records: Sequence[Record]) -> TaskSettings:
    """The task of all the runs, as the first has it set."""
    if not records:
        raise ValueError("there are no runs to show")
    tasks = list(dict.fromkeys(record.settings.task.name for record in records))
    if len(tasks) > 1:
        raise ValueError(f"the runs are of different tasks: {', '.join(tasks)}")
    return records[0].settings.task


def _panel(column: str, records: Sequence[Record]) -> Panel:
    raw = [Points(*record.curve(column)) for record in records]
    window = smoothing_window(max(len(points.steps) for points in raw))
    names = labels([record.settings.unit for record in records], [r.name for r in records])
    before: Counter[str] = Counter()
    curves = []
    for record, label, points in zip(records, names, raw, strict=True):
        unit, state = record.settings.unit, record.status.state
        ended = state in ENDED
        smooth = smoothed(points, window)
        curves.append(
            Curve(
                label=label if ended else f"{label}, {printable(state)}",
                colour=COLOURS[unit],
                smooth=smooth,
                raw=thinned(points),
                validation=_validation(record, column),
                goal=_goal_point(record, column, points),
                cut_short=None if ended else _last_finite(smooth),
                repeat=before[unit],
            )
        )
        before[unit] += 1
    goal = records[0].goal
    shown_goal = goal if goal is not None and goal.column == column else None
    return Panel(column, tuple(curves), shown_goal, window)


def _validation(record: Record, column: str) -> Points:
    if not record.settings.recipe.evaluate_every:
        return NO_POINTS
    return thinned(Points(*record.curve(f"validation_{column}")))


def _goal_point(record: Record, column: str, points: Points) -> tuple[int, float] | None:
    step = record.status.goal_step
    if step is None or record.goal is None or record.goal.column != column:
        return None
    if step not in points.steps:
        return None
    return step, points.values[points.steps.index(step)]


def _last_finite(points: Points) -> tuple[int, float] | None:
    pairs = zip(reversed(points.steps), reversed(points.values), strict=True)
    return next(((step, value) for step, value in pairs if abs(value) < LARGEST), None)


def smoothing_window(batches: int) -> int:
    """So many that the mean lags behind by less than a hundredth of the picture."""
    return max(1, batches // 60)


def smoothed(points: Points, window: int, most: int = MOST_POINTS) -> Points:
    """The mean of the last `window` values, fewer at the start, at evenly spread steps."""
    size = len(points.values)
    ends = sorted({size - size * part // most for part in range(most)} - {0})
    parts = (points.values[max(0, end - window) : end] for end in ends)
    means = [sum(part) / len(part) for part in parts]
    return Points([points.steps[end - 1] for end in ends], means)


def thinned(points: Points, most: int = MOST_POINTS) -> Points:
    """The lowest, the highest and the first broken value of each stretch, and both ends."""
    size = len(points.steps)
    if size <= most:
        return points
    stretches = max((most - 2) // 3, 1)
    kept = {0, size - 1}
    for stretch in range(stretches):
        part = range(stretch * size // stretches, (stretch + 1) * size // stretches)
        kept.update(_telling(part, points.values))
    order = sorted(kept)
    return Points([points.steps[i] for i in order], [points.values[i] for i in order])


def _telling(part: range, values: Sequence[float]) -> Iterator[int]:
    finite = [i for i in part if math.isfinite(values[i])]
    if finite:
        yield min(finite, key=values.__getitem__)
        yield max(finite, key=values.__getitem__)
    if len(finite) < len(part):
        yield next(i for i in part if not math.isfinite(values[i]))
