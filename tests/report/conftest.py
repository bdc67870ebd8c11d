"""Run records as training leaves them, made up."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rda.training.record import (
    METRICS,
    TIMING,
    Record,
    write_environment,
    write_settings,
    write_status,
)
from rda.training.settings import full_settings, small_settings
from rda.training.status import Status

NOT_FINITE = float("nan")


@dataclass(frozen=True)
class Outside:
    """Guess the next number."""

    name = "guess"
    title = "Guessing"
    metric = "accuracy"
    goal = None
    lower_is_better = False
    reference = ""

    numbers: int = 3


@pytest.fixture
def outside() -> type[Outside]:
    """A task as a user writes one, outside of the package."""
    return Outside


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Record]:
    def write(
        name: str = "run",
        task: str = "multicopy",
        unit: str = "RDA-exp-tanh",
        *,
        rows: list[dict[str, float]] | None = None,
        timing: list[tuple[int, float]] | None = None,
        environment: list[dict[str, object]] | None = None,
        small: bool = False,
        recipe: dict[str, object] | None = None,
        **status: object,
    ) -> Record:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        settings = (small_settings if small else full_settings)(task, unit)
        settings = replace(settings, recipe=replace(settings.recipe, **(recipe or {})))
        write_settings(folder, settings)
        write_environment(folder, environment or [])
        write_status(folder, Status(**{"state": "finished", **status}))
        _write_lines(folder / METRICS, rows or [])
        _write_lines(folder / TIMING, [{"step": s, "seconds": t} for s, t in timing or []])
        return Record(folder)

    return write


def _write_lines(path: Path, rows: list[dict[str, float]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def write_own_run(write_run: Callable[..., Record]) -> Callable[..., Record]:
    """A run of a unit, or on a task, that is not one of the package's."""

    def write(name: str, unit: str = "GRU", task: object = None, **facts: object) -> Record:
        record = write_run(name, **facts)
        object.__setattr__(record.settings, "unit", unit)
        if task is not None:
            object.__setattr__(record.settings, "task", task)
        return record

    return write


@pytest.fixture
def odd_runs(write_run: Callable[..., Record]) -> list[Record]:
    """One run of each kind that a drawing could stumble over."""
    learned = [{"step": s, "loss": 1 / s, "accuracy": 1 - 1 / s} for s in range(1, 200)]
    broken = [{"step": 1, "loss": 2.0, "accuracy": 0.1}, {"step": 2, "loss": NOT_FINITE}]
    endless = [{"step": 1, "loss": float("inf"), "accuracy": 0.5}]
    return [
        write_run("learned", rows=learned, step=199, goal_step=101),
        write_run("nothing-yet", unit="RWA", state="running"),
        write_run("broken", unit="LSTM", rows=broken, step=2, state="failed"),
        write_run("endless", unit="GRU", rows=endless, step=1, state="failed"),
        write_run("one-step", unit="RDA-sigmoid-id", rows=learned[:1], step=1, state="stopped"),
        write_run("all-zero", unit="RDA-exp-id", rows=[{"step": 1, "loss": 0.0}], step=1),
    ]
