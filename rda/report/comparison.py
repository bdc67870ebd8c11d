"""Runs of one task as one comparison: everything that the terminal, picture and page show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rda.report.colours import unit_colours
from rda.report.curves import Panel, build_panels
from rda.report.headline import headline
from rda.report.provenance import Setting, own_environment, settings_used, shared_environment
from rda.report.reading import Facts, GoalLine, Run, TaskFacts, read_or_excuse
from rda.report.summary import (
    WINDOW,
    Summary,
    labels,
    ranking,
    shared_differences,
    summarise_run,
)
from rda.report.wording import MISSING, count, duration, number, rate
from rda.training.record import Record


@dataclass(frozen=True)
class Row:
    """One run: its label and colour, a cell for each column, its details."""

    run: Summary
    label: str
    colour: str
    cells: tuple[str, ...]
    note: str
    """Settings that only this run has, and why it was cut short."""
    facts: Facts
    """What there is to say of this run alone."""
    starts: tuple[Facts, ...]
    """For each start of the run, the environment that not all runs share."""


@dataclass(frozen=True)
class Comparison:
    """Runs of one task side by side, the best first."""

    task: TaskFacts
    headline: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    shared: str
    """Settings of all runs that are unlike the usual ones; empty if there are none."""
    panels: tuple[Panel, ...]
    settings: tuple[Setting, ...]
    environment: Facts
    """What all starts of all runs have in common."""

    @property
    def goal(self) -> GoalLine | None:
        """The task's goal, if it has one."""
        return self.task.goal

    @property
    def difference_note(self) -> str:
        """One clause that admits the shared differences; empty if there are none."""
        return f"unlike {self.task.usual}: {self.shared}" if self.shared else ""


def build_comparison(records: Sequence[Record]) -> Comparison:
    """Compare runs of one task. A run whose files cannot be read is listed with the reason."""
    if not records:
        raise ValueError("there are no runs to compare")
    tasks = list(dict.fromkeys(record.settings.task.name for record in records))
    if len(tasks) > 1:
        raise ValueError(f"the runs are of different tasks: {', '.join(tasks)}")
    found = [read_or_excuse(record) for record in records]
    summaries = [summarise_run(run) for run in found]
    ranked = ranking(summaries)
    runs = [found[_position(summaries, summary)] for summary in ranked]
    task, shared = runs[0].task, shared_differences(ranked)
    columns = {
        name: cell
        for name, cell in _columns(task).items()
        if any(cell(summary) != MISSING for summary in ranked)
    }
    environment = shared_environment(runs)
    return Comparison(
        task=task,
        headline=headline(ranked, task.goal),
        columns=tuple(columns),
        rows=tuple(_rows(runs, ranked, list(columns.values()), shared, environment)),
        shared=", ".join(shared),
        panels=build_panels(runs),
        settings=tuple(settings_used(runs)),
        environment=environment,
    )


def _position(summaries: Sequence[Summary], wanted: Summary) -> int:
    """By identity: two summaries may be equal, or hold a value that is not a number."""
    return next(i for i, summary in enumerate(summaries) if summary is wanted)


def _columns(task: TaskFacts) -> dict[str, Callable[[Summary], str]]:
    """Steps to the goal, or the metrics of a task without one."""
    last: dict[str, Callable[[Summary], str]] = {
        "steps/s": lambda run: rate(run.steps_per_second),
        f"{task.metric}, last {WINDOW}": lambda run: number(run.metric),
        "state": lambda run: run.state,
    }
    if task.goal is None:
        return {
            f"test {task.metric}": lambda run: number(run.test),
            f"best validation {task.metric}": lambda run: number(run.validation),
            "steps": lambda run: count(run.step),
            **last,
        }
    return {
        "steps to goal": lambda run: run.steps_to_goal,
        f"mean of {WINDOW} at goal": lambda run: count(run.trailing_goal_step),
        "time to goal": lambda run: duration(run.seconds_to_goal),
        **last,
    }


def _rows(
    runs: Sequence[Run],
    ranked: Sequence[Summary],
    cells: Sequence[Callable[[Summary], str]],
    shared: Sequence[str],
    environment: Facts,
) -> list[Row]:
    names = labels(ranked)
    colours = unit_colours(run.unit for run in ranked)
    return [
        Row(
            run=summary,
            label=label,
            colour=colours[summary.unit],
            cells=tuple(cell(summary) for cell in cells),
            note=_note(summary, shared),
            facts=_facts(summary),
            starts=tuple(own_environment(start, environment) for start in run.starts),
        )
        for run, summary, label in zip(runs, ranked, names, strict=True)
    ]


def _note(run: Summary, shared: Sequence[str]) -> str:
    own = [difference for difference in run.differences if difference not in shared]
    return "; ".join(part for part in (", ".join(own), "" if run.ended else run.reason) if part)


def _facts(run: Summary) -> Facts:
    metric = run.metric_name
    facts = {
        "run": run.name,
        "state": run.state,
        "reason": run.reason,
        "steps": count(run.step),
        "time of training": duration(run.seconds or None),
        "first batch at the goal": count(run.goal_step),
        f"mean of {WINDOW} batches at the goal": count(run.trailing_goal_step),
        "time to the goal": duration(run.seconds_to_goal),
        "steps per second": rate(run.steps_per_second),
        f"loss, mean of the last {WINDOW}": number(run.loss),
        f"{metric}, mean of the last {WINDOW}": number(run.metric),
        f"{metric}, best validation": number(run.validation),
        f"{metric}, test": number(run.test),
    }
    return {name: text for name, text in facts.items() if text not in ("", MISSING)}
