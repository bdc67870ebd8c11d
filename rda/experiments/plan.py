"""What is recorded of a set of runs, what is missing, and what that will cost."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rda.experiments.paper import find_table
from rda.training.record import SETTINGS, Record
from rda.training.settings import RunSettings, identity
from rda.training.status import FAILED, FINISHED, RUNNING, STOPPED, RecordError, Status

SecondsPerStep = Callable[[RunSettings], float]


@dataclass(frozen=True)
class Planned:
    """One run: what it is, how far it is, and how much is left."""

    name: str
    settings: RunSettings
    status: Status | None
    """None where nothing is recorded."""
    expected_steps: int
    """How many steps it will take in all, as far as that can be known."""
    problem: str = ""
    """Why the record that is there cannot be used."""
    ended_where_this_skips: bool = False
    """Whether the record's settings end a run at a step that these settings skip."""

    @property
    def done(self) -> bool:
        """Whether it came to its goal, or did all its steps without."""
        if self.status is None:
            return False
        all_steps = self.status.step >= self.settings.limits.steps
        return self.status.state == FINISHED or (self.status.state == STOPPED and all_steps)

    @property
    def failed(self) -> bool:
        """Whether it died, or its record cannot be read: neither is tried again."""
        died = self.status is not None and self.status.state == FAILED
        return bool(self.problem) or (died and not self.ended_where_this_skips)

    @property
    def busy(self) -> bool:
        """Whether another process trains it now."""
        return self.status is not None and self.status.state == RUNNING

    @property
    def missing(self) -> bool:
        """Whether there is something to train."""
        return not (self.done or self.failed or self.busy)

    @property
    def begun(self) -> bool:
        """Whether a part of it is recorded."""
        return self.missing and self.status is not None and self.status.step > 0

    @property
    def steps_left(self) -> int:
        """How many steps are expected to be missing."""
        if not self.missing:
            return 0
        return max(self.expected_steps - (self.status.step if self.status else 0), 1)


def make_plan(runs: Mapping[str, RunSettings], folder: Path) -> list[Planned]:
    """Where each of these runs stands, in a folder of runs."""
    found = [look(name, settings, folder / name) for name, settings in runs.items()]
    ended: dict[str, list[int]] = {}
    for run in found:
        if run.status is not None and run.done:
            ended.setdefault(_kind(run.settings), []).append(run.status.step)
    return [
        replace(run, expected_steps=_expected(run.settings, ended.get(_kind(run.settings), [])))
        for run in found
    ]


def in_order(plan: Sequence[Planned], seconds: SecondsPerStep) -> list[Planned]:
    """What is missing: first what was begun, then the cheapest."""
    missing = [run for run in plan if run.missing]
    return sorted(missing, key=lambda run: (not run.begun, cost(run, seconds), run.name))


def cost(run: Planned, seconds: SecondsPerStep) -> float:
    """Seconds that are left of a run. Only for one that is missing the speed is asked for."""
    return run.steps_left * seconds(run.settings) if run.missing else 0.0


def look(name: str, settings: RunSettings, folder: Path) -> Planned:
    """Where one run stands, without what other seeds tell about its steps."""
    if not (folder / SETTINGS).exists():
        return Planned(name, settings, None, settings.limits.steps)
    try:
        record = Record(folder)
        if identity(record.settings) != identity(settings):
            raise RecordError(f"{folder} holds a run with other settings")
        rules = record.settings.recipe.not_finite, settings.recipe.not_finite
        return Planned(
            name,
            settings,
            record.status,
            settings.limits.steps,
            ended_where_this_skips=rules == ("fail", "skip"),
        )
    except RecordError as error:
        return Planned(name, settings, None, settings.limits.steps, str(error))


def _kind(settings: RunSettings) -> str:
    """What runs with different seeds have in common."""
    without_seed = replace(settings, recipe=replace(settings.recipe, seed=0))
    return repr(identity(without_seed))


def _expected(settings: RunSettings, ended: Sequence[int]) -> int:
    """The steps of other seeds; otherwise those of the paper, if the sizes are the paper's;
    otherwise the limit."""
    limit = settings.limits.steps
    if settings.limits.stop_at == "never":
        return limit
    if ended:
        return min(round(statistics.median(ended)), limit)
    table = find_table(settings.task.name)
    if table is None or table.measure != "goal_step" or settings.task != type(settings.task)():
        return limit
    published = table.published.get(settings.unit)
    return limit if published is None or published.beyond else min(int(published.value), limit)
