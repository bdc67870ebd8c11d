"""A run's folder, as anyone may read it: what was set, where it ran, every step, how it ended.

settings.toml       task, unit, recipe and limits
environment.json    one entry for each start: versions, hardware, git state, engine, command
metrics.jsonl       one line for each step and for each evaluation
timing.jsonl        seconds of training at some of the steps
status.json         state, reason, step, goals, best evaluation, test
checkpoints/        the last two, each with its SHA-256
model.safetensors   the weights to use: those of the best evaluation, otherwise the last
samples.jsonl       what a model of text wrote after each evaluation
intervals.json      how far a forecast may be off; outcomes.json what the test part was answered;
                    inspection.json, inspection.png what the unit looked at: made with the weights
curves.png          the picture of the run
manifest.sha256     the SHA-256 of each file, written when the run has ended
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from rda.files import plain, read_plain, write_atomically
from rda.settings import SCALED_ERROR, Goal
from rda.training.locking import is_locked
from rda.training.manifest import MANIFEST, damaged_files
from rda.training.settings import RunSettings
from rda.training.settings_file import SettingsError, read_settings, to_toml
from rda.training.status import (
    KILLED,
    RUNNING,
    RecordError,
    Status,
    is_count,
    is_number,
    status_from,
)

SETTINGS, ENVIRONMENT, STATUS = "settings.toml", "environment.json", "status.json"
METRICS, TIMING, MODEL = "metrics.jsonl", "timing.jsonl", "model.safetensors"
SAMPLES = "samples.jsonl"
CHECKPOINTS, TENSORBOARD, PICTURE = "checkpoints", "tensorboard", "curves.png"
INTERVALS, OUTCOMES = "intervals.json", "outcomes.json"
INSPECTION, INSPECTION_PICTURE = "inspection.json", "inspection.png"
MEAN = "mean_"
"""In a thinned record, begins the names of columns with means since the row before."""
SEALED = (SETTINGS, ENVIRONMENT, METRICS, TIMING, STATUS, MODEL)
DERIVED = (INTERVALS, OUTCOMES, INSPECTION)
"""What commands find out with the weights of a run; beside other weights it means nothing."""
PICTURES = (PICTURE, INSPECTION_PICTURE)
FILES = (
    STATUS, MANIFEST, METRICS, TIMING, ENVIRONMENT, MODEL, SAMPLES, *DERIVED, *PICTURES, SETTINGS
)  # fmt: skip
"""All files of a run, in the order in which they are removed: without its settings a folder is not
a run any more. Checkpoints and event files have folders."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,99}")
BLOCK = 1 << 16


def status_in(folder: Path) -> Status | None:
    """The status of the run in a folder; None where there is none that can be read."""
    try:
        return Record(folder).status
    except RecordError:
        return None


def check_name(name: str) -> str:
    """A run's name is a plain file name: no separators, nothing hidden, nothing odd."""
    if not NAME.fullmatch(name):
        raise RecordError(
            f"run name {name!r} should be 1 to 100 letters, digits or any of . _ + = - "
            "and begin with a letter or digit"
        )
    return name


class Record:
    """One run, read from its folder.

    `status` is given by a process that has just trained the run: it knows the status even where
    the disk was full and refused to take it.
    """

    def __init__(self, folder: Path | str, status: Status | None = None) -> None:
        self.folder = folder = Path(folder)
        self._known_status = status
        if not (folder / SETTINGS).is_file():
            raise RecordError(f"{folder} is not a run: it has no {SETTINGS}")
        try:
            self.settings: RunSettings = read_settings(folder / SETTINGS)
        except SettingsError as error:
            raise RecordError(str(error)) from error
        self._read: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    def __repr__(self) -> str:
        return f"Record({str(self.folder)!r})"

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def goal(self) -> Goal | None:
        """The task's goal, if it has one."""
        return self.settings.task.goal

    @property
    def status(self) -> Status:
        """The status as last written; a run that was killed says so."""
        if self._known_status is not None:
            return self._known_status
        status = self._written_status()
        if status.state == RUNNING and not is_locked(self.folder):
            return Status(**{**asdict(status), "state": KILLED})
        return status

    def _written_status(self) -> Status:
        content = self._json(STATUS)
        return Status() if content is None else status_from(content, self.folder / STATUS)

    @property
    def metric(self) -> str:
        """The name of the score in its metrics. Several columns of a forecast have one of their
        own; records of earlier versions have the mean error over all of them."""
        steps, _ = self.tail(SCALED_ERROR, 1)
        return SCALED_ERROR if steps else self.settings.task.metric

    @property
    def environment(self) -> list[dict[str, Any]]:
        """One entry for each start."""
        entries = self._json(ENVIRONMENT)
        if entries is None:
            return []
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise RecordError(f"{self.folder / ENVIRONMENT} is not a list of starts")
        return entries

    @property
    def command(self) -> str | None:
        """The command of the last start, where it is known."""
        command = self.environment[-1].get("command") if self.environment else None
        return command if isinstance(command, str) else None

    def _json(self, name: str) -> Any:
        """The content of a JSON file; None where there is no such file."""
        try:
            return json.loads(read_plain(self.folder / name))
        except FileNotFoundError:
            return None
        except RecursionError:
            reason = "it is nested too deeply"
        except OSError as error:
            reason = error.strerror or str(error)
        except ValueError as error:
            reason = str(error)
        raise RecordError(f"{self.folder / name} cannot be read: {reason}")

    def verify(self, tolerated: Sequence[str] = ()) -> list[str]:
        """Raise a RecordError where a file of a run that has ended was changed since.

        Returns the changed files if all of them are `tolerated`. A run that goes on has no
        manifest, and neither have runs of earlier versions.
        """
        damaged = self.damaged()
        if not set(damaged) <= set(tolerated):
            mends = set(damaged) <= {MODEL, STATUS, MANIFEST}
            advice = "the command that trained it mends it" if mends else "--force trains it again"
            raise RecordError(
                f"run {self.name} is not as it was when it ended: {', '.join(damaged)} is missing "
                f"or changed; {advice}"
            )
        return damaged

    def damaged(self) -> list[str]:
        """The files of a run that has ended that are missing or were changed since."""
        sealed = (self.folder / MANIFEST).exists()
        try:
            status = self._written_status()
        except RecordError:
            return [STATUS] if sealed else []
        if not sealed:
            return [MANIFEST] if status.sealed else []
        if status.state == RUNNING and (self.folder / STATUS).exists():
            return []  # it goes on, or was killed between its manifest and its last status
        return damaged_files(self.folder)

    def curve(self, column: str) -> tuple[list[int], list[float]]:
        """Steps and values of one column, such as "loss" or "validation_accuracy"."""
        return self._column(METRICS, column)

    def timing(self) -> tuple[list[int], list[float]]:
        """Steps, and the seconds of training that had passed."""
        return self._column(TIMING, "seconds")

    def tail(self, column: str, count: int) -> tuple[list[int], list[float]]:
        """As `curve`, but only the last few values, without reading the whole file.

        Looks at the last 2 * count rows only, so it may return fewer values.
        """
        newest = islice(_rows_backwards(self.folder / METRICS), 2 * count)
        found = [row for row in newest if column in row][:count][::-1]
        return [int(row["step"]) for row in found], [float(row[column]) for row in found]

    def _column(self, file: str, column: str) -> tuple[list[int], list[float]]:
        found = [row for row in self._rows(self.folder / file) if column in row]
        return [int(row["step"]) for row in found], [float(row[column]) for row in found]

    def _rows(self, path: Path) -> list[dict[str, Any]]:
        """The lines written so far; the file is read again only when its length has changed."""
        size = _size(path)
        if size == 0:
            return []
        if self._read.get(path.name, (0, []))[0] != size:
            self._read[path.name] = size, list(rows(path))
        return self._read[path.name][1]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """One row a line; the last line may be incomplete, where a run goes on or was killed."""
    with open(path, "rb", opener=plain) as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            yield row_of(line, f"{path} line {number}")


def _rows_backwards(path: Path) -> Iterator[dict[str, Any]]:
    """The rows from the last to the first, read block by block."""
    if _size(path) == 0:
        return
    with open(path, "rb", opener=plain) as file:
        start = file.seek(0, 2)
        rest = b""
        complete = False  # what stands after the last line end is not a row yet
        while start > 0:
            size = min(BLOCK, start)
            start -= size
            file.seek(start)
            first, *lines = (file.read(size) + rest).split(b"\n")
            for line in reversed(lines):
                if complete:
                    yield row_of(line, f"a line near the end of {path}")
                complete = True
            rest = first
        if complete:
            yield row_of(rest, f"{path} line 1")


def row_of(line: bytes, where: str) -> dict[str, Any]:
    """A line of `metrics.jsonl` or `timing.jsonl`: numbers by name, a step among them."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{where} is not JSON") from error
    if not isinstance(row, dict) or not is_count(row.get("step")):
        raise RecordError(f"{where} has no step")
    if not all(map(is_number, row.values())):
        raise RecordError(f"{where} holds something that is not a number")
    return row


def run_folders(runs: Path) -> list[Path]:
    """The folders of all runs in a folder of runs, by name; those that cannot be read too."""
    if not runs.is_dir():
        return []
    return [folder for folder in sorted(runs.iterdir()) if _may_be_run(folder)]


def _may_be_run(folder: Path) -> bool:
    try:
        return (folder / SETTINGS).is_file()
    except PermissionError:
        return True


def read_records(folders: list[Path]) -> tuple[list[Record], list[str]]:
    """The runs that can be read, and one line for each that cannot."""
    records, complaints = [], []
    for folder in folders:
        try:
            records.append(Record(folder))
        except RecordError as error:
            complaints.append(str(error))
        except OSError as error:
            complaints.append(f"{folder} cannot be read: {error.strerror}")
    return records, complaints


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
