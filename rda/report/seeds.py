"""Several seeds of each unit in one sentence: medians with their ranges."""

from collections.abc import Sequence
from dataclasses import dataclass

from rda.experiments.evidence import middle
from rda.report.reading import GoalLine
from rda.report.summary import Summary, measure
from rda.report.wording import count, number


@dataclass(frozen=True)
class _Unit:
    """The runs of one unit that came to their end."""

    name: str
    values: tuple[float, ...]
    """Steps to the goal, infinite where it was not reached; or the metric."""
    lower_is_better: bool

    @property
    def middle(self) -> float:
        return middle(self.values, self.lower_is_better)


def have_seeds(runs: Sequence[Summary]) -> bool:
    """Whether the runs are repetitions: several seeds of a unit, and nothing named twice."""
    pairs = {(run.unit, run.seed) for run in runs}
    return len(pairs) == len(runs) > len({run.unit for run in runs})


def over_seeds(runs: Sequence[Summary], goal: GoalLine | None) -> list[str]:
    """The median of each unit, the best first; a median of infinity did not reach the goal."""
    ended = [run for run in runs if run.ended or run.goal_step is not None]
    if not ended:
        return []
    column = "goal_step" if goal is not None else measure(runs)
    lower = goal is not None or ended[0].lower_is_better
    units = []
    for name in dict.fromkeys(run.unit for run in ended):
        values = [getattr(run, column) for run in ended if run.unit == name]
        missing = float("inf") if lower else float("-inf")
        known = tuple(missing if v is None else float(v) for v in values)
        units.append(_Unit(name, known, lower))
    units.sort(key=lambda unit: unit.middle, reverse=not lower)
    what = f"Steps to {goal}" if goal is not None else f"{_kind(column)} {ended[0].metric_name}"
    told = "; ".join(f"{unit.name} {_told(unit, goal is not None)}" for unit in units)
    return [f"{what}, median of the seeds and their range: {told}."]


def _kind(column: str) -> str:
    return "Training" if column == "metric" else column.capitalize()


def _told(unit: _Unit, steps: bool) -> str:
    values = unit.values

    def said(value: float) -> str:
        if abs(value) == float("inf"):
            return "not reached" if steps else "none"
        return count(round(value)) if steps else number(value)

    if len(values) == 1:
        return f"{said(values[0])} (one seed)"
    if min(values) == max(values):
        return f"{said(values[0])} (all {len(values)} seeds)"
    range = f"{said(min(values))} to {said(max(values))}"
    return f"{said(unit.middle)} ({range}, {len(values)} seeds)"
