"""Which unit suits people's own sequences: the runs, one after the other, then the page."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rda.choosing.terms import Terms
from rda.commands.many import connection, train_on
from rda.commands.parser import UsageError
from rda.commands.training import check, folder_for, outcome, train_one
from rda.options import Cluster, Machine, Place, default_runs
from rda.settings import SCALED_ERROR
from rda.training.record import SETTINGS, Record
from rda.training.settings import RunSettings, default_name
from rda.training.status import FAILED, INTERRUPTED, STOPPED

if TYPE_CHECKING:
    from collections.abc import Generator

    from rda.choosing.entries import Entry
    from rda.choosing.verdict import Verdict
    from rda.report.choice import Choice
    from rda.tasks.own_sequences.source import SequenceSource
    from rda.training.progress import TrainingProgress

    _Turns = Generator[list[RunSettings], list[Record | None], Entry | None]
    """Asks for runs, is given their records, and ends with the entry of its unit."""

MOST_CLASSES = 50
"""Of a table of classes; a larger one cannot be read."""
SHOWN = 3
"""Columns for a terminal; the page has all."""


class _InterruptedError(Exception):
    """A run was interrupted, and saved."""


def choose(
    runs: list[RunSettings],
    terms: Terms,
    machine: Machine,
    place: Place,
    command: str,
    cluster: Cluster,
) -> int:
    """Try learning rates, repeat the best with other seeds, compare, advise."""
    from rda.training.progress import TrainingProgress

    name = place.name or f"compare-{default_name(runs[0])}".replace(f"-{runs[0].unit}", "", 1)
    folder = folder_for(place, name)
    if (folder / SETTINGS).exists():
        raise UsageError(f"{name} is a run: give the comparison another --name")
    check(machine, place, [settings.unit for settings in runs], here=not cluster.on)
    contest = _Contest(terms, machine, place, command, TrainingProgress(), cluster)
    try:
        with connection(cluster):
            found = contest.held(runs)
    except _InterruptedError:
        return 130
    _show(found, contest.tried, folder, command)
    return 1 if contest.failed else 0


class _Contest:
    """The runs of all units, each recorded like any other run."""

    def __init__(
        self, terms: Terms, machine: Machine, place: Place, command: str,
        progress: "TrainingProgress", cluster: Cluster,
    ) -> None:  # fmt: skip
        self.terms, self.machine, self.place = terms, machine, place
        self.command, self.progress, self.cluster = command, progress, cluster
        self.tried: dict[str, list[Record]] = {}
        self.failed = False

    def held(self, runs: list[RunSettings]) -> "Verdict":
        """All runs and the baselines, ranked."""
        import torch

        from rda.choosing.advice import score_name
        from rda.choosing.baselines import baselines_of
        from rda.choosing.contest import on_equal_terms
        from rda.choosing.entries import entry_of
        from rda.choosing.verdict import verdict
        from rda.tasks.own_sequences import OwnSequences

        task = runs[0].task
        assert isinstance(task, OwnSequences)
        source = task.open(torch.device("cpu"))
        for part in ("validation", "test"):
            if not source.divided.count(part):
                raise UsageError(f"{part} should be above 0 to compare units")
        told = source.told()
        for line in told:
            self.progress.say(line)
        labels = bool(source.classes)
        scales = source.understanding.scales
        entries = [
            entry_of(name, [one], labels, scales=scales)
            for name, one in baselines_of(source).items()
        ]
        units = [
            self._unit(run, runs[0], source) for run in on_equal_terms(runs, self.terms, source)
        ]
        # On a cluster all units take their turns together, so that their runs are trained at once.
        for together in [units] if self.cluster.on else [[unit] for unit in units]:
            for entry in self._in_turns(together):
                entries.append(entry)
                self.progress.say(f"{entry.name}: {score_name(source.metric)} {entry.score}")
        return verdict(source.understanding, source.metric, entries, told)

    def _in_turns(self, units: "list[_Turns]") -> "list[Entry]":
        """Train what each unit asks for, until every one has its entry."""
        entries: dict[int, Entry | None] = {}
        trained: dict[int, list[Record | None] | None] = dict.fromkeys(range(len(units)))
        while len(entries) < len(units):
            asked: dict[int, list[RunSettings]] = {}
            for place, answer in trained.items():
                try:
                    asked[place] = (
                        next(units[place]) if answer is None else units[place].send(answer)
                    )
                except StopIteration as done:
                    entries[place] = done.value
            answers = iter(self._train([run for runs in asked.values() for run in runs]))
            trained = {place: [next(answers) for _ in runs] for place, runs in asked.items()}
        return [entry for _, entry in sorted(entries.items()) if entry is not None]

    def _unit(self, run: RunSettings, model: RunSettings, source: "SequenceSource") -> "_Turns":
        """The runs of a unit, in turns, each of which depends on the one before.

        `model` is the first run of all, whose sizes the others match.
        """
        from rda.choosing.contest import (
            best,
            kept_bytes,
            longer_may_help,
            parameters,
            repeated,
            resized,
            tried,
        )
        from rda.choosing.entries import entry_of
        from rda.training.outcomes import outcomes_of

        first = [record for record in (yield tried(run, self.terms)) if record is not None]
        self.tried[run.unit] = first
        if not first:
            return None
        rated = best(first).settings
        sizes = self.terms.hidden_sizes
        others = yield [resized(rated, model, size, self.terms, source) for size in sizes]
        first += [record for record in others if record is not None]
        chosen = best(first)
        others = yield repeated(chosen, self.terms)
        records = [chosen, *(record for record in others if record is not None)]
        outcomes = [outcomes_of(record) for record in records]
        scales = source.understanding.scales
        entry = entry_of(run.unit, outcomes, bool(source.classes), records, scales)
        kept = chosen.settings
        ended = [record.status for record in records]
        taken = sum(status.seconds for status in ended)
        return replace(
            entry,
            parameters=parameters(kept, source),
            kept_bytes=kept_bytes(kept, source),
            speed=sum(status.step for status in ended) / taken if taken else 0.0,
            may_help=longer_may_help(records),
        )

    def _train(self, runs: list[RunSettings]) -> list[Record | None]:
        """Runs to their end; None for one that failed."""
        if not self.cluster.on:
            return [self._train_here(run) for run in runs]
        waiting = {default_name(run): run for run in runs if not self._out_of_time(run)}
        trained = train_on(waiting, self.cluster, self.machine, self.place, self.command)
        if trained.stopped:
            raise _InterruptedError
        self.failed |= trained.failed
        return [self._ended(run) for run in runs]

    def _ended(self, run: RunSettings) -> Record | None:
        folder = folder_for(self.place, default_name(run))
        record = Record(folder) if (folder / SETTINGS).is_file() else None
        return record if record is not None and record.status.ended else None

    def _out_of_time(self, run: RunSettings) -> Record | None:
        if self.place.force:
            return None
        return _out_of_time(run, folder_for(self.place, default_name(run)))

    def _train_here(self, run: RunSettings) -> Record | None:
        """One run to its end; None where it failed."""
        name = default_name(run)
        done = self._out_of_time(run)
        if done is not None:
            return done
        record = train_one(run, self.machine, self.place, name, None, self.progress, self.command)
        if record.status.state == INTERRUPTED:
            self.progress.say(outcome(run.unit, record.status))
            raise _InterruptedError
        if record.status.state == FAILED:
            self.progress.say(outcome(run.unit, record.status))
            self.failed = True
            return None
        return record


def _out_of_time(run: RunSettings, folder: Path) -> Record | None:
    """A run that has had its minutes: another turn would give it more than the others."""
    if not run.limits.minutes or not (folder / SETTINGS).is_file():
        return None
    record = Record(folder)
    same = record.settings == run
    return record if same and record.status.state == STOPPED else None


def _show(found: "Verdict", tried: dict[str, list[Record]], folder: Path, command: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from rda.files import write_atomically
    from rda.report.choice import render_choice

    choice = _choice(found, tried, folder, command)
    console = Console()
    table = Table(*("unit", *choice.columns[:SHOWN]), box=None)
    for row in choice.rows:
        table.add_row(row.name, *row.cells[:SHOWN])
    console.print()
    console.print(table)
    console.print(f"\n{found.advice}", markup=False, highlight=False)
    if choice.use:
        console.print(f"use it: {choice.use}", markup=False, highlight=False, soft_wrap=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / "index.html"
        write_atomically(page, render_choice(choice).encode(errors="replace"))
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)


def _choice(
    found: "Verdict", tried: dict[str, list[Record]], folder: Path, command: str
) -> "Choice":
    from rda.choosing.verdict import confusion
    from rda.report.choice import Choice, Scored, charts_of, shaded, table

    units = found.units
    scored = [
        Scored(
            one.name, str(one.score), one.errors, one.records, one.parameters, one.kept_bytes,
            one.speed,
        )
        for one in found.entries
    ]  # fmt: skip
    columns, rows = table(scored, found.metric, found.understanding.target)
    charts, environment = charts_of([one.records[0] for one in units]) if units else ((), {})
    classes = found.understanding.classes
    few = 0 < len(classes) <= MOST_CLASSES
    picture, picture_text = _picture(found)
    forecasts = found.understanding.problem == "forecast"
    return Choice(
        title=f"Which unit suits {_data(tried, folder)}",
        advice=found.advice,
        best=units[0].name if units else "",
        use=command_to_use(found),
        columns=columns,
        rows=rows,
        explained=_EXPLAINED[found.metric].format(
            drawn="stretches of time" if forecasts else "test sequences"
        ),
        charts=charts,
        classes=classes,
        confusion=shaded(confusion(units[0].outcomes, classes)) if units and few else (),
        picture=picture,
        picture_text=picture_text,
        told=found.told,
        command=command,
        tried=tuple(_tried(record) for some in tried.values() for record in some),
        environment=environment,
    )


def _picture(found: "Verdict") -> tuple[str, str]:
    """What the best unit predicts, as an image and in words; nothing where it tells labels."""
    import numpy as np

    from rda.report.choice import forecast_picture, scatter
    from rda.training.intervals import LEVEL, backtest_of

    understood, units = found.understanding, found.units
    if not units or understood.classes:
        return "", ""
    if understood.problem != "forecast":
        parts = units[0].outcomes
        true, predicted = (
            np.concatenate([getattr(p, n) for p in parts]) for n in ("true", "predicted")
        )
        return scatter(true, predicted, ", ".join(understood.target)), _POINTS
    backtests = backtest_of(units[0].records[0])
    held = ", ".join(f"{one.held:.0%} of {one.column}" for one in backtests)
    steps = understood.horizon
    ahead = "the next step" if steps == 1 else f"the next {steps:,} steps"
    text = (
        f"Black: what came. Blue: forecasts of {ahead}, each made where the one before ends. The "
        f"bands are meant to hold {LEVEL:.0%} of the values, by the errors on the validation part; "
        f"of the test part they hold {held}."
    )
    return forecast_picture(backtests), text


_POINTS = "Each point is an answer of the test part; on the line it would be exact."
_EXPLAINED = {
    "accuracy": "The share of right answers, mean over seeds. In brackets where it would lie in 95 "
    "of 100 draws of other {drawn} and seeds.",
    SCALED_ERROR: "The mean absolute error over all columns and seeds. An error is divided by the "
    "deviation of its column's change from one step to the next in the training part, because "
    "columns may have different units. In brackets where it would lie in 95 of 100 draws of other "
    "{drawn} and seeds. Beside it is the mean absolute error of each column in its own "
    "unit.",
    "error": "The mean absolute error in the target's own unit, mean over seeds. In brackets where "
    "it would lie in 95 of 100 draws of other {drawn} and seeds.",
}


def command_to_use(found: "Verdict") -> str:
    """The command by which the recommended unit reads other sequences."""
    if found.recommended is None:
        return ""
    folder = found.recommended.records[0].folder
    place = folder.name if folder.parent == default_runs() else str(folder)
    return f"rda predict {shlex.quote(place)} --data FILE"


def _data(tried: dict[str, list[Record]], folder: Path) -> str:
    for records in tried.values():
        for record in records:
            return Path(str(getattr(record.settings.task, "data", ""))).name or folder.name
    return folder.name


def _tried(record: Record) -> tuple[str, ...]:
    """Unit, learning rate, size and validation loss of a run."""
    recipe = record.settings.recipe
    loss = record.status.best.get("validation_loss", float("nan"))
    return record.settings.unit, f"{recipe.learning_rate:g}", str(recipe.hidden_size), f"{loss:.4g}"
