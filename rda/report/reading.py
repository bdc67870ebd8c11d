"""A run's record as one snapshot of plain values, whatever its files hold.

A record may be of a run that is still going on, of an older version, or edited by hand. A report
reads each file once. A record that cannot be read never stops the report on the others.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rda.report.points import NO_POINTS, Clock, Points
from rda.report.wording import shown
from rda.tasks import Task, description
from rda.training.record import MEAN, Record
from rda.training.settings import RunSettings
from rda.training.status import RecordError
from rda.wording import printable

UNREADABLE = "unreadable"
"""State of a run whose files cannot be read."""
DEEPEST = 4
"""Tables within tables are taken apart down to this depth."""

Facts = dict[str, str]


@dataclass(frozen=True)
class GoalLine:
    """The threshold that a column of the metrics should pass."""

    column: str
    threshold: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TaskFacts:
    """What a report says about the task of its runs."""

    name: str
    title: str
    description: str
    metric: str
    lower_is_better: bool
    goal: GoalLine | None
    from_the_paper: bool

    @property
    def usual(self) -> str:
        """Whose sizes are the usual ones of this task."""
        return "the paper" if self.from_the_paper else "the defaults"


@dataclass(frozen=True)
class Run:
    """All that a report needs of one record."""

    name: str
    settings: RunSettings
    task: TaskFacts
    state: str
    reason: str
    step: int
    seconds: float
    goal_step: int | None
    trailing_goal_step: int | None
    validation: float | None
    """The metric of the best evaluation on the validation data."""
    test: float | None
    columns: Mapping[str, Points]
    clock: Clock
    starts: tuple[Facts, ...]
    """What the environment held at each start."""

    @property
    def unit(self) -> str:
        """The unit's label as text."""
        return printable(str(self.settings.unit))

    @property
    def seed(self) -> int:
        """The seed of weight initialisation and batch order."""
        return self.settings.recipe.seed

    def curve(self, column: str) -> Points:
        """One column of the metrics; empty where the run has no such column."""
        return self.columns.get(column, NO_POINTS)

    def means(self, column: str) -> Points:
        """The means between the kept steps of a thinned record; empty for a whole one."""
        return self.curve(f"{MEAN}{column}")


def read_run(record: Record, last: int = 0) -> Run:
    """A snapshot of a record; RecordError where a file cannot be read or was changed.

    With `last`, only so many values at the end of each column are read, and nothing is verified:
    quick, for lists of many long runs.
    """
    if not last:
        record.verify()
    task, status = describe_task(record.settings), record.status
    task = replace(task, metric=record.metric)
    names = dict.fromkeys((task.metric, "loss"))
    wanted = [f"{part}{name}" for part in ("", "validation_", MEAN) for name in names]
    step, seconds = status.step, status.seconds if 0 < status.seconds < math.inf else 0.0
    timings = list(zip(*record.timing(), strict=True))
    if seconds > 0:
        timings.append((step, seconds))
    return Run(
        name=printable(record.name),
        settings=record.settings,
        task=task,
        state=printable(status.state) or "unknown",
        reason=printable(status.reason),
        step=step,
        seconds=seconds,
        goal_step=status.goal_step,
        trailing_goal_step=status.trailing_goal_step,
        validation=status.best.get(f"validation_{task.metric}"),
        test=status.test.get(f"test_{task.metric}"),
        columns={
            name: Points(*(record.tail(name, last) if last else record.curve(name)))
            for name in wanted
        },
        clock=Clock.from_timings(timings),
        starts=tuple(dict(_facts(entry)) for entry in record.environment),
    )


def read_or_excuse(record: Record) -> Run:
    """A snapshot; where a file cannot be read, an empty one that says why."""
    try:
        return read_run(record)
    except RecordError as error:
        return Run(
            name=printable(record.name),
            settings=record.settings,
            task=describe_task(record.settings),
            state=UNREADABLE,
            reason=printable(str(error)),
            step=0,
            seconds=0.0,
            goal_step=None,
            trailing_goal_step=None,
            validation=None,
            test=None,
            columns={},
            clock=Clock(),
            starts=(),
        )


def describe_task(settings: RunSettings) -> TaskFacts:
    """The facts that a task's class holds, as text."""
    task = settings.task
    goal = task.goal
    return TaskFacts(
        name=printable(task.name),
        title=printable(task.title),
        description=_description(task),
        metric=task.metric,
        lower_is_better=task.lower_is_better,
        goal=None if goal is None else GoalLine(goal.column, goal.threshold, printable(str(goal))),
        from_the_paper=bool(task.reference),
    )


def _description(task: Task) -> str:
    """The docstring, with the place in the paper where the task has one."""
    text = printable(description(type(task)))
    return f"{text.rstrip('.')} ({task.reference})." if task.reference else text


def _facts(entry: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Nested values as names and texts, without those that are empty."""
    for key, value in entry.items():
        name = f"{prefix}{printable(str(key))}".replace("_", " ")
        if key == "git" and isinstance(value, dict):
            yield name, _git(value)
        elif isinstance(value, dict) and depth < DEEPEST:
            yield from _facts(value, f"{name} ", depth + 1)
        elif value is not None and value != "":
            yield name, shown(value)


def _git(state: Mapping[str, Any]) -> str:
    changes = " with uncommitted changes" if state.get("dirty") is True else ""
    return f"{shown(state.get('commit'))}{changes}"
