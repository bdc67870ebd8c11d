"""A run as one row of plain facts, and the order in which rows are shown."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise

from rda.report.wording import MISSING, count, printable
from rda.training.record import FINISHED, STOPPED, Record, Status
from rda.training.settings import Limits, RunSettings, paper_settings, small_settings

WINDOW = 100
"""Batches over which the last loss and metric are averaged."""
ENDED = (FINISHED, STOPPED)
"""States of a run that came to the end that was asked for: its goal or a limit."""
LIMITS = tuple(field.name for field in fields(Limits))
NOT_IN_THE_PAPER = ("seed", "evaluate_every", "precision", *LIMITS)
"""Settings on which the paper says nothing."""


@dataclass(frozen=True)
class Summary:
    """What there is to say of a run in one row. None: not known, or not there."""

    name: str
    task: str
    unit: str
    state: str
    reason: str
    step: int
    goal_step: int | None
    trailing_goal_step: int | None
    seconds_to_goal: float | None
    steps_per_second: float | None
    loss: float | None
    """Mean of the last batches, as is `metric`."""
    metric_name: str
    lower_is_better: bool
    metric: float | None
    validation: float | None
    """The metric of the best evaluation."""
    test: float | None
    differences: tuple[str, ...]
    """What was set otherwise than for the paper, such as "hidden_size 64" or "seed 3"."""
    brief_differences: tuple[str, ...]
    """The same in fewer words where the run is near its task's small twin."""

    @property
    def ended(self) -> bool:
        """Whether the run came to the end that was asked for, so that it is a result."""
        return self.state in ENDED

    @property
    def steps_to_goal(self) -> str:
        """Such as "310", "> 1,500" or, where the run was cut short, "> 420, failed"."""
        if self.goal_step is not None:
            return count(self.goal_step)
        if self.step == 0:
            return MISSING
        return f"> {count(self.step)}" + ("" if self.ended else f", {self.state}")


def summarise(record: Record) -> Summary:
    """The facts of one run as they stand now."""
    status, task = record.status, record.settings.task
    loss = _mean_of_last(record, "loss")
    differences, small = (
        tuple(_differences(record.settings, twin(task.name, record.settings.unit)))
        for twin in (paper_settings, small_settings)
    )
    return Summary(
        name=printable(record.name),
        task=task.name,
        unit=record.settings.unit,
        state=printable(status.state),
        reason=printable(status.reason),
        step=status.step,
        goal_step=status.goal_step,
        trailing_goal_step=status.trailing_goal_step,
        seconds_to_goal=_seconds_to_goal(record, status),
        steps_per_second=status.step / status.seconds if status.seconds > 0 else None,
        loss=loss,
        metric_name=task.metric,
        lower_is_better=task.lower_is_better,
        metric=loss if task.metric == "loss" else _mean_of_last(record, task.metric),
        validation=status.best.get(f"validation_{task.metric}"),
        test=status.test.get(f"test_{task.metric}"),
        differences=differences,
        brief_differences=min(differences, ("small", *small), key=len),
    )


def _mean_of_last(record: Record, column: str) -> float | None:
    last = record.curve(column)[1][-WINDOW:]
    return sum(last) / len(last) if last else None


def _seconds_to_goal(record: Record, status: Status) -> float | None:
    """Between the two timings around the goal, in proportion to the steps."""
    if status.goal_step is None:
        return None
    timings = [(0, 0.0), *zip(*record.timing(), strict=True)]
    if status.step > timings[-1][0] and status.seconds > 0:
        timings.append((status.step, status.seconds))
    for (before, early), (after, late) in pairwise(timings):
        if before < status.goal_step <= after:
            return early + (late - early) * (status.goal_step - before) / (after - before)
    return None


def _differences(settings: RunSettings, usual: RunSettings) -> Iterator[str]:
    before = asdict(usual.recipe) | asdict(usual.task)
    for name, value in (asdict(settings.recipe) | asdict(settings.task)).items():
        if value != before[name]:
            yield f"{name} {value}"


def ranking(summaries: Sequence[Summary]) -> list[Summary]:
    """By the steps to the goal, then by the metric; a run that was cut short comes last."""
    measured = measure(summaries)

    def place(summary: Summary) -> tuple[int, float, str]:
        if summary.goal_step is not None:
            return 0, summary.goal_step, summary.name
        if not summary.ended:
            return 2, -summary.step, summary.name
        value: float | None = getattr(summary, measured)
        if value is None or math.isnan(value):
            return 1, math.inf, summary.name
        return 1, value if summary.lower_is_better else -value, summary.name

    return sorted(summaries, key=place)


def measure(summaries: Sequence[Summary]) -> str:
    """The best of "test", "validation" and "metric" that every run which ended has."""
    for name in ("test", "validation"):
        values = [getattr(summary, name) for summary in summaries if summary.ended]
        if values and None not in values:
            return name
    return "metric"


def labels(units: Sequence[str], names: Sequence[str]) -> list[str]:
    """What each run is called beside the others: its unit, or its name where units recur."""
    times = Counter(units)
    return [
        unit if times[unit] == 1 else _with_unit(printable(name), unit)
        for unit, name in zip(units, names, strict=True)
    ]


def _with_unit(name: str, unit: str) -> str:
    return name if unit in name else f"{unit} ({name})"


def shared_differences(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """What all the runs have set alike, otherwise than in the paper."""
    first, *others = summaries
    return tuple(
        difference
        for difference in first.differences
        if difference.split()[0] not in NOT_IN_THE_PAPER
        and all(difference in other.differences for other in others)
    )
