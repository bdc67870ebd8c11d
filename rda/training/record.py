"""A run's folder, as anyone may read it: what was set, where it ran, every step, how it ended.

settings.toml       what was asked for
environment.json    each start: versions, hardware, git state, engine, command
metrics.jsonl       one line a step, one an evaluation
timing.jsonl        seconds of training at some of the steps
status.json         state, reason, goals
checkpoints/        the last two, each with its SHA-256
model.safetensors   the weights to use: of the best evaluation, or the last
"""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rda.files import is_locked, write_atomically
from rda.tasks.settings import Goal
from rda.training.settings import RunSettings
from rda.training.settings_file import SettingsError, read_settings, to_toml

SETTINGS, ENVIRONMENT, STATUS = "settings.toml", "environment.json", "status.json"
METRICS, TIMING, MODEL = "metrics.jsonl", "timing.jsonl", "model.safetensors"
CHECKPOINTS, TENSORBOARD, PICTURE, LOCK = "checkpoints", "tensorboard", "curves.png", "lock"

RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"
INTERRUPTED, FAILED = "interrupted", "failed"
KILLED = "killed"
"""Shown of a run whose status says running while nothing holds its lock."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,99}")


class RecordError(ValueError):
    """A run that is not there, cannot be read, or must not be written."""


@dataclass(frozen=True)
class Status:
    """How far a run is and how it ended."""

    state: str = RUNNING
    reason: str = ""
    step: int = 0
    seconds: float = 0.0
    """Of training, over all starts; without evaluation and saving."""
    goal_step: int | None = None
    """First step whose batch reached the goal."""
    trailing_goal_step: int | None = None
    """First step at which the mean of the last 100 did."""
    best_step: int | None = None
    """Of the best evaluation on the validation part."""
    best: dict[str, float] = field(default_factory=dict)
    test: dict[str, float] = field(default_factory=dict)
    """On the test part, with the weights of the best evaluation."""


def check_name(name: str) -> str:
    """A run's name is a plain file name: no separators, nothing hidden, nothing odd."""
    if not NAME.fullmatch(name):
        raise RecordError(
            f"run name {name!r} should be 1 to 100 letters, digits or any of . _ + = - "
            "and begin with a letter or digit"
        )
    return name


class Record:
    """One run, read from its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / SETTINGS).is_file():
            raise RecordError(f"{folder} is not a run: it has no {SETTINGS}")
        try:
            self.settings: RunSettings = read_settings(folder / SETTINGS)
        except SettingsError as error:
            raise RecordError(str(error)) from error
        self._read: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    @property
    def name(self) -> str:
        """The folder's."""
        return self.folder.name

    @property
    def goal(self) -> Goal | None:
        """The task's, if it has one."""
        return self.settings.task.goal

    @property
    def status(self) -> Status:
        """As last written; a run that was killed says so."""
        try:
            content = json.loads((self.folder / STATUS).read_text())
            status = Status(**content)
            if not isinstance(status.step, int) or not isinstance(status.seconds, int | float):
                raise TypeError("step and seconds should be numbers")
        except FileNotFoundError:
            status = Status()
        except (OSError, ValueError, TypeError) as error:
            raise RecordError(f"{self.folder / STATUS} cannot be read: {error}") from error
        if status.state == RUNNING and not is_locked(self.folder / LOCK):
            return Status(**{**asdict(status), "state": KILLED})
        return status

    @property
    def environment(self) -> list[dict[str, Any]]:
        """One entry a start."""
        try:
            entries = json.loads((self.folder / ENVIRONMENT).read_text())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise RecordError(f"{self.folder / ENVIRONMENT} cannot be read: {error}") from error
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise RecordError(f"{self.folder / ENVIRONMENT} is not a list of starts")
        return entries

    def curve(self, column: str) -> tuple[list[int], list[float]]:
        """Steps and values of one column, such as "loss" or "validation_accuracy"."""
        return self._column(METRICS, column)

    def timing(self) -> tuple[list[int], list[float]]:
        """Steps, and the seconds of training that had passed."""
        return self._column(TIMING, "seconds")

    def _column(self, file: str, column: str) -> tuple[list[int], list[float]]:
        rows = [row for row in self._rows(self.folder / file) if column in row]
        return [int(row["step"]) for row in rows], [float(row[column]) for row in rows]

    def _rows(self, path: Path) -> list[dict[str, Any]]:
        """The lines written so far, read once for each length of the file."""
        size = path.stat().st_size if path.exists() else 0
        if size == 0:
            return []
        if self._read.get(path.name, (0, []))[0] != size:
            self._read[path.name] = size, list(_rows(path))
        return self._read[path.name][1]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """One row a line; the last may be half a line, where a run goes on or was killed."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
            except ValueError as error:
                raise RecordError(f"{path} line {number} is not JSON") from error
            if not isinstance(row, dict) or not isinstance(row.get("step"), int):
                raise RecordError(f"{path} line {number} has no step")
            if not all(isinstance(value, int | float) for value in row.values()):
                raise RecordError(f"{path} line {number} holds something that is no number")
            yield row


def run_folders(runs: Path) -> list[Path]:
    """The folders of all runs in a folder of runs, by name."""
    if not runs.is_dir():
        return []
    return [folder for folder in sorted(runs.iterdir()) if (folder / SETTINGS).is_file()]


def write_settings(folder: Path, settings: RunSettings) -> None:
    """Replace `settings.toml`."""
    write_atomically(folder / SETTINGS, to_toml(settings).encode())


def write_status(folder: Path, status: Status) -> None:
    """Replace `status.json`."""
    write_atomically(folder / STATUS, as_json(asdict(status)))


def write_environment(folder: Path, entries: list[dict[str, Any]]) -> None:
    """Replace `environment.json`."""
    write_atomically(folder / ENVIRONMENT, as_json(entries))


def as_json(value: Any) -> bytes:
    """Readable JSON with a newline at its end."""
    return (json.dumps(value, indent=1) + "\n").encode()
