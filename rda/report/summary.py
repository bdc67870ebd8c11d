"""A run as one row of plain facts, and the order in which rows are shown."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Protocol

from rda.report.reading import Run, read_run
from rda.report.wording import MISSING, count
from rda.settings import Limits
from rda.training.record import Record
from rda.training.settings import RunSettings, full_settings, small_settings
from rda.training.status import ENDED

WINDOW = 100
"""The last loss and metric are means of this many batches."""
LIMITS = tuple(field.name for field in fields(Limits))
NOT_IN_THE_PAPER = ("seed", "evaluate_every", "precision", *LIMITS)
"""Settings on which the paper says nothing."""


class Labelled(Protocol):
    """What tells one run from another."""

    @property
    def unit(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class Summary:
    """What a table says of a run in one row. None means not known, or not there."""

    name: str
    task: str
    unit: str
    seed: int
    state: str
    reason: str
    step: int
    goal_step: int | None
    trailing_goal_step: int | None
    seconds_to_goal: float | None
    seconds: float
    """Seconds of training, without evaluation and saving."""
    steps_per_second: float | None
    loss: float | None
    """Mean of the last batches; so is `metric`."""
    metric_name: str
    lower_is_better: bool
    metric: float | None
    validation: float | None
    """The metric of the best evaluation on the validation data."""
    test: float | None
    differences: tuple[str, ...]
    """Settings unlike the usual ones of the task, such as "hidden_size 64" or "seed 3"."""
    brief_differences: tuple[str, ...]
    """The same in fewer words: beside the task's small twin where that is nearer."""

    @property
    def ended(self) -> bool:
        """Whether the run came to its goal or to a limit."""
        return self.state in ENDED

    @property
    def steps_to_goal(self) -> str:
        """A cell such as "310", "> 1,500" or, for a run that was cut short, "> 420, failed"."""
        if self.goal_step is not None:
            return count(self.goal_step)
        if self.step == 0:
            return MISSING
        return f"> {count(self.step)}" + ("" if self.ended else f", {self.state}")


def summarise(record: Record) -> Summary:
    """The facts of one run as they stand now; RecordError where its files cannot be read."""
    return summarise_run(read_run(record, last=WINDOW))


def summarise_run(run: Run) -> Summary:
    """The facts of a run in one row."""
    loss = _mean_of_last(run, "loss")
    metric = run.task.metric
    differences = tuple(_differences(run.settings, usual_settings(run.settings)))
    small = tuple(_differences(run.settings, usual_settings(run.settings, small=True)))
    return Summary(
        name=run.name,
        task=run.task.name,
        unit=run.unit,
        seed=run.seed,
        state=run.state,
        reason=run.reason,
        step=run.step,
        goal_step=run.goal_step,
        trailing_goal_step=run.trailing_goal_step,
        seconds_to_goal=None if run.goal_step is None else run.clock.seconds(run.goal_step),
        seconds=run.seconds,
        steps_per_second=run.step / run.seconds if run.seconds > 0 else None,
        loss=loss,
        metric_name=metric,
        lower_is_better=run.task.lower_is_better,
        metric=loss if metric == "loss" else _mean_of_last(run, metric),
        validation=run.validation,
        test=run.test,
        differences=differences,
        brief_differences=min(differences, ("small", *small), key=len),
    )


def _mean_of_last(run: Run, column: str) -> float | None:
    last = run.curve(column).values[-WINDOW:]
    return sum(last) / len(last) if last else None


def usual_settings(settings: RunSettings, small: bool = False) -> RunSettings:
    """The paper's settings for a run's task and unit, or the defaults of a task from outside.

    A task or unit that is not known here, as when its module is not installed, has no usual
    settings: the run's own are returned, and nothing counts as different.
    """
    try:
        usual = small_settings if small else full_settings
        return usual(settings.task.name, settings.unit)
    except (KeyError, ValueError):
        return settings


def _differences(settings: RunSettings, usual: RunSettings) -> Iterator[str]:
    before = asdict(usual.recipe) | asdict(usual.task)
    for name, value in (asdict(settings.recipe) | asdict(settings.task)).items():
        if value != before.get(name, value):
            yield f"{name} {value}"


def ranking(summaries: Sequence[Summary]) -> list[Summary]:
    """Sorted by steps to the goal, then by metric; runs that were cut short come last."""
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
    """What runs without a goal are ranked by.

    "test" or "validation" where every run that ended has it, otherwise "metric".
    """
    for name in ("test", "validation"):
        values = [getattr(summary, name) for summary in summaries if summary.ended]
        if values and None not in values:
            return name
    return "metric"


def labels(runs: Sequence[Labelled]) -> list[str]:
    """How each run is called beside the others.

    Its unit is enough if no other run has it. Otherwise the seed is added, or the name of the
    run if two runs have the same unit and the same seed.
    """
    units = Counter(run.unit for run in runs)
    seeds = Counter((run.unit, run.seed) for run in runs)
    return [
        run.unit
        if units[run.unit] == 1
        else f"{run.unit}, seed {run.seed}"
        if seeds[run.unit, run.seed] == 1
        else run.name
        if run.unit in run.name
        else f"{run.unit} ({run.name})"
        for run in runs
    ]


def shared_differences(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """Settings that all runs share, unlike the usual ones of the task."""
    first, *others = summaries
    return tuple(
        difference
        for difference in first.differences
        if difference.split()[0] not in NOT_IN_THE_PAPER
        and all(difference in other.differences for other in others)
    )
