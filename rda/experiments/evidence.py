"""What our runs show, cell by cell beside the paper's tables."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rda.analysis import inspection
from rda.analysis.inspection import Inspection
from rda.experiments.catalogue import experiments, runs_by_name
from rda.experiments.paper import (
    Measure,
    Published,
    Table,
    find_table,
    unlike_section_6_1,
)
from rda.experiments.plan import Planned, make_plan
from rda.experiments.protocol import Study, Variant
from rda.labels import COMPARED
from rda.training.record import Record
from rda.training.settings import default_name

FACTOR = 1.5
"""Steps to a goal count as published within this factor. The paper gives one run for each number,
and our own seeds differ by up to 1.4, on classify length by up to 2.5."""
ACCURACY_MARGIN = 0.003
"""So do accuracies on the test set within this distance; the paper gives three digits."""
BITS_MARGIN = 0.01
"""So do bits per character; seeds of a unit that learns differ by up to 0.008."""
NOT_LEARNED_BITS = 5.0
"""A unit that needs as many has not learned to predict: to know how often each character occurs
in enwik8 gives 5.1."""
NOT_LEARNED_ACCURACY = 0.114
"""Nor has one that is right as seldom on MNIST: the commonest digit is 0.1135 of the test set."""

DECIMALS = {"goal_step": 0, "accuracy": 4, "bits": 3}
"""In our numbers; the test set of MNIST has 10,000 images."""

Kind = Literal["as published", "better", "worse", "another recipe", "not run"]
Standing = Literal["as published", "better", "worse"]


def middle(values: Sequence[float], lower_is_better: bool) -> float:
    """The median; of an even number the worse one of the middle two, so that a run has it."""
    return (statistics.median_high if lower_is_better else statistics.median_low)(values)


@dataclass(frozen=True)
class Outcome:
    """One run that came to its end, or died."""

    name: str
    seed: int
    value: float
    """Steps to the goal, infinite where it was not reached; or the result on the test data."""
    steps: int
    seconds: float
    problem: str = ""
    """Why it died."""


@dataclass(frozen=True)
class Cell:
    """All runs of one unit on one task, beside the published number."""

    task: str
    unit: str
    measure: Measure
    published: Published | None
    outcomes: tuple[Outcome, ...]
    wanted: int
    """Number of runs that we ask for."""
    departures: tuple[str, ...] = ()
    """The settings in which the runs are not as section 6.1 says."""

    @property
    def values(self) -> list[float]:
        """The measure of each run that did not die, in order."""
        return sorted(outcome.value for outcome in self.outcomes if not outcome.problem)

    @property
    def median(self) -> float | None:
        """None without any run; infinite where most did not reach the goal."""
        return middle(self.values, self.measure != "accuracy") if self.values else None

    @property
    def limit(self) -> int:
        """The most steps that a run without its goal took."""
        return max((one.steps for one in self.outcomes if math.isinf(one.value)), default=0)

    @property
    def middle(self) -> str:
        """The median, or why there is none."""
        if self.median is not None:
            return self.show(self.median)
        return "died" if self.outcomes else "not run"

    @property
    def range(self) -> str:
        """The smallest and the largest value; empty where they are the same."""
        if not self.values or self.values[0] == self.values[-1]:
            return ""
        return f"{self.show(self.values[0])} to {self.show(self.values[-1])}"

    @property
    def text(self) -> str:
        """Median and range: "1,659 (1,640 to 1,702)"."""
        return f"{self.middle} ({self.range})" if self.range else self.middle

    def show(self, value: float) -> str:
        """A value as a cell of the table shows it."""
        if math.isinf(value):
            return f"> {self.limit:,}"
        return f"{value:,.{DECIMALS[self.measure]}f}"

    @property
    def missing(self) -> str:
        """How many runs are missing or died; empty where all are there."""
        died = sum(bool(outcome.problem) for outcome in self.outcomes)
        left = self.wanted - len(self.outcomes)
        parts = [f"{left} of {self.wanted} seeds not run"] if left > 0 else []
        parts += [f"{died} died"] if died else []
        return ", ".join(parts)

    @property
    def kind(self) -> Kind:
        """Where our runs stand beside what the paper has."""
        if self.median is None or self.published is None:
            return "not run"
        if self.departures:
            return "another recipe"
        return _standing(self.measure, self.median, self.published)

    @property
    def comparison(self) -> str:
        """Our median beside the published number, in words."""
        if self.median is None or self.published is None:
            return "not run"
        verb = "reach" if self.measure == "goal_step" else "learn"
        ours, theirs = _failures(self.measure, self.median, self.published)
        if ours:
            told = f"neither {verb}ed it" if theirs else f"ours did not {verb} it"
            learned = sum(not did_not_learn(self.measure, value) for value in self.values)
            return f"{told}, but {learned} of our {len(self.outcomes)} runs" if learned else told
        if theirs:
            return f"theirs did not {verb} it, ours did"
        if self.measure == "goal_step":
            return f"{self.median / self.published.value:.2f} x"
        difference = _difference(self.measure, self.median, self.published)
        return f"{difference:+.{DECIMALS[self.measure]}f}"


class Evidence:
    """All runs of the paper's experiments in a folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.experiments = experiments()
        runs = runs_by_name(self.experiments.values())
        self.plan = {run.name: run for run in make_plan(runs, folder)}
        self._runs: dict[str, list[Planned]] = {}
        self._cells: dict[str, dict[str, Cell]] = {}
        self._shares: dict[str, int] = {}

    def runs_of(self, experiment: str) -> list[Planned]:
        """Where each run of an experiment stands."""
        if experiment not in self._runs:
            names = map(default_name, self.experiments[experiment].runs)
            self._runs[experiment] = [self.plan[name] for name in names]
        return self._runs[experiment]

    def cells(self, table: Table) -> dict[str, Cell]:
        """One cell for each unit of a table."""
        if table.name not in self._cells:
            self._cells[table.name] = self._cells_of(table)
        return self._cells[table.name]

    def _cells_of(self, table: Table) -> dict[str, Cell]:
        found = self.runs_of(table.name)
        return {
            unit: _cell(table.task, unit, table.measure, table.published[unit], found)
            for unit in COMPARED
        }

    def cell(self, task: str, unit: str) -> Cell:
        """The cell of a table."""
        table = find_table(task)
        assert table is not None
        return self.cells(table)[unit]

    def activation(self, task: str, unit: str) -> Cell:
        """The runs of the study of section 6.2."""
        return _cell(task, unit, "goal_step", None, self.runs_of("activations"))

    def lemma(self, unit: str, length: int) -> Cell:
        """The runs of the alternating task of one length."""
        return _cell("alternating", unit, "goal_step", None, self._lemma_runs(length))

    def highest_weight(self, task: str, unit: str) -> float | None:
        """The highest log d_t of the first inspected run of a unit."""
        for outcome in self.cell(task, unit).outcomes:
            found = inspection.read(self.folder / outcome.name)
            if found is not None:
                return max(found.highest_weight)
        return None

    def _lemma_runs(self, length: int) -> list[Planned]:
        found = self.runs_of("lemma-1")
        return [run for run in found if getattr(run.settings.task, "length", 0) == length]

    def highest_attention(self, unit: str, length: int) -> float | None:
        """The highest log a_t of the trained unit of seed 0 while it gave two answers in turn."""
        found = self.lemma_inspection(unit, length)
        return None if found is None else max(found.highest_attention)

    def lemma_inspection(self, unit: str, length: int) -> Inspection | None:
        """What the run of seed 0 of a unit on one length of the alternating task looked at."""
        for run in self._lemma_runs(length):
            if run.settings.unit == unit and run.settings.recipe.seed == 0:
                return inspection.read(self.folder / run.name)
        return None

    def variant(self, study: Study, variant: Variant, unit: str) -> Cell:
        """The runs of one unit in one variant of a study, beside the published number."""
        names = [default_name(variant.settings(unit, seed)) for seed in study.seeds_of()]
        table = find_table(variant.task)
        assert table is not None
        runs = [self.plan[name] for name in names]
        return _cell(variant.task, unit, table.measure, table.published[unit], runs)

    def cost_left(self, experiment: str) -> tuple[float, int]:
        """Seconds that the missing runs of an experiment will take, and how many cannot be told.

        Taken from the records of the same task, and of the same unit where there are any. Several
        runs that shared a device count each for its part of it.
        """
        total, unknown = 0.0, 0
        for run in self.runs_of(experiment):
            if run.missing:
                seconds = self._seconds_per_step(run)
                total += 0.0 if seconds is None else seconds * run.steps_left
                unknown += seconds is None
        return total, unknown

    def _seconds_per_step(self, wanted: Planned) -> float | None:
        """As other runs of the task were, those of the same unit first."""
        task, unit = wanted.settings.task.name, wanted.settings.unit
        for units in ((unit,), COMPARED):
            found = [
                seconds
                for run in self.plan.values()
                if run.settings.task.name == task and run.settings.unit in units
                if (seconds := self._measured(run)) is not None
            ]
            if found:
                return statistics.median(found)
        return None

    def _measured(self, run: Planned) -> float | None:
        if run.status is None or not run.status.step or not run.status.seconds:
            return None
        if run.name not in self._shares:
            starts = Record(self.folder / run.name).environment
            shared = starts[-1].get("runs_at_once") if starts else None
            self._shares[run.name] = shared if isinstance(shared, int) and shared > 0 else 1
        return run.status.seconds / run.status.step / self._shares[run.name]

    def records(self, names: Iterable[str]) -> dict[str, Record]:
        """The records of runs of which something is recorded."""
        return {
            name: Record(self.folder / name)
            for name in names
            if self.plan[name].status is not None and not self.plan[name].problem
        }


def _standing(measure: Measure, ours: float, published: Published) -> Standing:
    """A result of ours beside the published one. A unit that learned is better than one that did
    not; two that did not are alike."""
    mine, theirs = _failures(measure, ours, published)
    if mine or theirs:
        return "as published" if mine and theirs else "worse" if mine else "better"
    if measure == "goal_step":
        worse, better = ours > FACTOR * published.value, FACTOR * ours < published.value
    else:
        gain = _difference(measure, ours, published)
        gain, margin = (-gain, BITS_MARGIN) if measure == "bits" else (gain, ACCURACY_MARGIN)
        worse, better = gain < -margin, gain > margin
    return "worse" if worse else "better" if better else "as published"


def did_not_learn(measure: Measure, value: float) -> bool:
    """Whether a result is that of a unit that did not learn its task."""
    if measure == "accuracy":
        return value <= NOT_LEARNED_ACCURACY
    return math.isinf(value) or (measure == "bits" and value >= NOT_LEARNED_BITS)


def _failures(measure: Measure, ours: float, published: Published) -> tuple[bool, bool]:
    """Whether ours, and whether theirs, says that the unit did not learn the task."""
    theirs = published.beyond or did_not_learn(measure, published.value)
    return did_not_learn(measure, ours), theirs


def _difference(measure: Measure, ours: float, published: Published) -> float:
    """As it is shown, so that the verdict never contradicts the number beside it."""
    return round(ours - published.value, DECIMALS[measure])


def _cell(
    task: str,
    unit: str,
    measure: Measure,
    published: Published | None,
    found: Iterable[Planned],
) -> Cell:
    mine = [run for run in found if run.settings.task.name == task and run.settings.unit == unit]
    usable = (run for run in mine if not run.problem and (run.done or run.failed))
    ended = tuple(_outcome(run, measure) for run in usable)
    departures = dict.fromkeys(name for run in mine for name in unlike_section_6_1(run.settings))
    return Cell(task, unit, measure, published, ended, len(mine), tuple(departures))


def _outcome(run: Planned, measure: Measure) -> Outcome:
    status = run.status
    assert status is not None
    if measure == "goal_step":
        value = math.inf if status.goal_step is None else float(status.goal_step)
    else:
        value = status.test.get(f"test_{run.settings.task.metric}", math.nan)
    problem = status.reason if run.failed else ""
    return Outcome(run.name, run.settings.recipe.seed, value, status.step, status.seconds, problem)
