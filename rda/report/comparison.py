"""The table that sets runs of one task side by side, as text for terminal and page alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rda.report.colours import COLOURS
from rda.report.summary import WINDOW, Summary, labels, ranking, shared_differences
from rda.report.wording import MISSING, count, duration, number, rate
from rda.tasks.settings import Goal


@dataclass(frozen=True)
class Row:
    """One run: a label in its unit's colour, a cell for each column, and what is its own."""

    run: Summary
    label: str
    colour: str
    cells: tuple[str, ...]
    note: str
    """What only this run has set so, and why it was cut short."""


@dataclass(frozen=True)
class Comparison:
    """Runs in the order of their success."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    shared: str
    """What all have set otherwise than in the paper; empty where nothing."""


def compare(summaries: Sequence[Summary], goal: Goal | None) -> Comparison:
    """Steps to the goal, or the metrics where the task has none; no column that is all empty."""
    ranked = ranking(summaries)
    shared = shared_differences(ranked)
    columns = {
        name: cell
        for name, cell in _columns(ranked[0].metric_name, goal).items()
        if any(cell(run) != MISSING for run in ranked)
    }
    names = labels([run.unit for run in ranked], [run.name for run in ranked])
    rows = tuple(
        Row(
            run,
            label,
            COLOURS[run.unit],
            tuple(cell(run) for cell in columns.values()),
            _note(run, shared),
        )
        for run, label in zip(ranked, names, strict=True)
    )
    return Comparison(tuple(columns), rows, ", ".join(shared))


def _columns(metric: str, goal: Goal | None) -> dict[str, Callable[[Summary], str]]:
    last: dict[str, Callable[[Summary], str]] = {
        "steps/s": lambda run: rate(run.steps_per_second),
        f"{metric}, last {WINDOW}": lambda run: number(run.metric),
        "state": lambda run: run.state,
    }
    if goal is None:
        return {
            f"test {metric}": lambda run: number(run.test),
            f"best validation {metric}": lambda run: number(run.validation),
            "steps": lambda run: count(run.step),
            **last,
        }
    return {
        "steps to goal": lambda run: run.steps_to_goal,
        f"mean of {WINDOW} at goal": lambda run: count(run.trailing_goal_step),
        "time to goal": lambda run: duration(run.seconds_to_goal),
        **last,
    }


def _note(run: Summary, shared: Sequence[str]) -> str:
    own = [difference for difference in run.differences if difference not in shared]
    return "; ".join(part for part in (", ".join(own), "" if run.ended else run.reason) if part)
