"""How far a run is and how it ended: the content of its `status.json`."""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"
INTERRUPTED, FAILED = "interrupted", "failed"
KILLED = "killed"
"""Shown for a run whose status says running while no process holds its lock."""
EXIT_CODES = {FINISHED: 0, FAILED: 1, STOPPED: 3, INTERRUPTED: 130}
"""Of the command that trains a run."""
STATES = tuple(EXIT_CODES)
"""In which training can end."""
ENDED = (FINISHED, STOPPED)
"""States of a run that came to the end that was asked for: its goal or a limit."""


class RecordError(ValueError):
    """A run that is not there, cannot be read, or must not be written."""


class RunInUseError(RecordError):
    """Another process trains the run."""


@dataclass(frozen=True)
class Status:
    """How far a run is and how it ended."""

    state: str = RUNNING
    reason: str = ""
    step: int = 0
    seconds: float = 0.0
    """Seconds of training over all starts, without evaluation and saving."""
    goal_step: int | None = None
    """The first step whose batch reached the goal."""
    trailing_goal_step: int | None = None
    """The first step at which the mean of the last 100 batches reached the goal."""
    skipped_steps: int = 0
    """Steps that changed nothing because a gradient was not finite (not_finite skip)."""
    saved_step: int | None = None
    """The step of the newest checkpoint; None before the first one. It is written here before the
    checkpoint counts, so that every checkpoint that counts is named here."""
    best_step: int | None = None
    """The step of the best evaluation on the validation data."""
    best: dict[str, float] = field(default_factory=dict)
    """The values of that evaluation."""
    test: dict[str, float] = field(default_factory=dict)
    """Values on the test data, with the weights of the best evaluation."""
    sealed: bool = False
    """Whether a manifest goes with this status."""
    thinned: bool = False
    """Whether only some of the steps are kept, and no checkpoints."""

    @property
    def has_saved(self) -> bool:
        """Whether a checkpoint was finished, or all of it but its checksum.

        Training saves one before it writes that it has ended or was interrupted.
        """
        return self.saved_step is not None or self.state in (*ENDED, INTERRUPTED)

    @property
    def ended(self) -> bool:
        """Whether the run came to its goal or to a limit, so that it is a result."""
        return self.state in ENDED


def status_from(content: Any, path: Path) -> Status:
    """A status from JSON, with every value of the right type; unknown keys are left out."""
    if not isinstance(content, dict) or "state" not in content:
        raise RecordError(f"{path} cannot be read: it has no state")
    known = {part.name: part.type for part in fields(Status) if part.name in content}
    for name, kind in known.items():
        if not _fits(content[name], kind):
            raise RecordError(f"{path} cannot be read: {name} is {_short(content[name])}")
    status = Status(**{name: content[name] for name in known})
    if status.state not in (RUNNING, *STATES):
        raise RecordError(f"{path} cannot be read: state is {_short(status.state)}")
    return status


def _fits(value: object, kind: Any) -> bool:
    if kind == dict[str, float]:
        return isinstance(value, dict) and all(map(is_number, value.values()))
    if kind is float:
        return is_number(value)
    if kind is int or kind == int | None:
        return is_count(value) or (value is None and kind is not int)
    return isinstance(value, kind)


def is_count(value: object) -> bool:
    """A whole number from 0 to 2**63 - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_number(value: object) -> bool:
    """A float, or a whole number that a float can hold."""
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) < 60 else f"{text[:57]}..."
