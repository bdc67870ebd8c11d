"""The writing side of a run's record: one process at a time, nothing of another run touched."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rda.files import try_lock, write_atomically
from rda.training import checkpoint
from rda.training.checkpoint import Checkpoint, CheckpointError
from rda.training.journal import Journal, JournalError
from rda.training.record import (
    CHECKPOINTS,
    ENVIRONMENT,
    LOCK,
    METRICS,
    MODEL,
    PICTURE,
    SETTINGS,
    STATUS,
    TENSORBOARD,
    TIMING,
    Record,
    RecordError,
    Status,
    write_environment,
    write_settings,
    write_status,
)
from rda.training.settings import RunSettings
from rda.training.settings_file import to_table


class Run:
    """A run that this process may write, for as long as the context lasts."""

    def __init__(self, folder: Path, settings: RunSettings, *, force: bool = False) -> None:
        self.folder = folder
        self.settings = settings
        self._force = force
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> "Run":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = try_lock(self.folder / LOCK)
            if self._lock is None:
                raise RecordError(f"run {self.folder} is in use by another process")
            self._claim()
            self._sweep()
            write_settings(self.folder, self.settings)
            self.metrics = Journal(self.folder / METRICS)
            self.timing = Journal(self.folder / TIMING)
        except OSError as error:
            self._let_go()
            raise RecordError(f"cannot write {self.folder}: {error.strerror}") from error
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.metrics.close()
            self.timing.close()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _claim(self) -> None:
        if (self.folder / SETTINGS).exists():
            if self._force:
                self._clear()
            else:
                _refuse_other_settings(Record(self.folder), self.settings)
            return
        strangers = [path.name for path in self.folder.iterdir() if not _is_ours(path)]
        if strangers:
            raise RecordError(
                f"{self.folder} is not a run and holds other files ({sorted(strangers)[0]}, ...)"
            )

    def _clear(self) -> None:
        """The settings go last: without them this is not a run any more."""
        for folder in (CHECKPOINTS, TENSORBOARD):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        for name in (STATUS, METRICS, TIMING, ENVIRONMENT, MODEL, PICTURE, SETTINGS):
            (self.folder / name).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove what saves that were cut off have left."""
        for folder in (self.folder, self.folder / CHECKPOINTS):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)

    @property
    def status(self) -> Status:
        """As last written."""
        return Record(self.folder).status

    def resume(self) -> tuple[Checkpoint | None, Iterator[dict[str, Any]], list[str]]:
        """The checkpoint to go on from, the rows up to it, and what there is to say.

        Whatever was recorded after that checkpoint is taken back: it will be made again.
        """
        try:
            found, notes = checkpoint.load_latest(self.folder / CHECKPOINTS)
            marks = {} if found is None else found.values
            if found is None and self.metrics.path.stat().st_size:
                notes = ["no checkpoint was finished before it stopped: beginning again"]
            kept = self.metrics.take_back_to(marks.get("metrics"))
            self.timing.take_back_to(marks.get("timing"))
        except (CheckpointError, JournalError) as error:
            raise RecordError(f"{error}; --force starts over") from error
        if found is not None and found.values["settings"] != _identity(self.settings):
            raise RecordError(
                f"the checkpoint of run {self.folder.name} was made with other settings than its "
                f"{SETTINGS} now says; --force starts over"
            )
        return found, map(json.loads, kept.splitlines()), notes

    def save(self, step: int, tensors: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """A checkpoint of everything, the records included."""
        marks = {"metrics": self.metrics.mark(), "timing": self.timing.mark()}
        content = {**values, **marks, "step": step, "settings": _identity(self.settings)}
        checkpoint.save(self.folder / CHECKPOINTS, Checkpoint(step, dict(tensors), content))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row to `metrics.jsonl`."""
        self.metrics.append(row)

    def append_timing(self, step: int, seconds: float) -> None:
        """Note how long training has taken."""
        self.timing.append({"step": step, "seconds": round(seconds, 3)})

    def write_status(self, status: Status) -> None:
        """Replace `status.json`."""
        write_status(self.folder, status)

    def add_environment(self, entry: dict[str, Any]) -> None:
        """Note where this start runs."""
        write_environment(self.folder, [*Record(self.folder).environment, entry])

    def write_model(self, tensors: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """The weights to use, without what only training needs."""
        write_atomically(self.folder / MODEL, checkpoint.pack(tensors, values))


def _identity(settings: RunSettings) -> dict[str, Any]:
    """What makes a run the run it is."""
    table = to_table(settings)
    del table["limits"]
    return table


def _is_ours(path: Path) -> bool:
    return path.name == LOCK or path.name.startswith(".")


def _refuse_other_settings(record: Record, asked: RunSettings) -> None:
    differences = []
    if record.settings.task.name != asked.task.name:
        differences.append(f"task {record.settings.task.name}, not {asked.task.name}")
    elif record.settings.unit != asked.unit:
        differences.append(f"unit {record.settings.unit}, not {asked.unit}")
    else:
        for section in ("task", "recipe"):
            new = asdict(getattr(asked, section))
            for name, old in asdict(getattr(record.settings, section)).items():
                if old != new[name]:
                    differences.append(f"{name} {old}, not {new[name]}")
    if differences:
        raise RecordError(
            f"run {record.name} has {'; '.join(differences)}: choose another --name, or start it "
            "over with --force"
        )
