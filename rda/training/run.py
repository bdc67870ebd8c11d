"""Writes a run's record: one process at a time, and only files of its own."""

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from rda.files import LEFTOVER, read_plain, write_atomically
from rda.tasks import Source
from rda.training import checkpoint
from rda.training.checkpoint import Checkpoint, CheckpointError
from rda.training.data_facts import recorded_facts, refuse_other_data
from rda.training.journal import Journal, JournalError
from rda.training.locking import LOCK, RunLock
from rda.training.manifest import MANIFEST, write_manifest
from rda.training.record import (
    CHECKPOINTS,
    DERIVED,
    FILES,
    METRICS,
    MODEL,
    SAMPLES,
    SEALED,
    SETTINGS,
    STATUS,
    TENSORBOARD,
    TIMING,
    Record,
    as_json,
    row_of,
    write_environment,
    write_settings,
    write_status,
)
from rda.training.settings import RunSettings, identity, with_defaults, without_its_end
from rda.training.status import RecordError, RunInUseError, Status

_OURS = "|".join(map(re.escape, FILES))
_CUT_OFF = re.compile(rf"\.({_OURS}|step-\d+\.(safetensors|sha256)){LEFTOVER}")
"""What a save that was cut off leaves behind."""


class Run:
    """A run that this process may write, for as long as the context lasts."""

    def __init__(
        self, folder: Path, settings: RunSettings, source: Source, *, force: bool = False
    ) -> None:
        self.folder = folder
        self.settings = settings
        self._source = source
        self._force = force
        self._lock: RunLock | None = None
        self._is_new = False
        self._journals: list[Journal] = []

    def __enter__(self) -> "Run":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_folder()
            self._lock = RunLock(self.folder)
            if not self._lock.held:
                raise RunInUseError(f"run {self.folder} is in use by another process")
            self._claim()
            self._sweep()
            self.metrics, self.timing = (
                Journal(self.folder / METRICS),
                Journal(self.folder / TIMING),
            )
            self._journals = [self.metrics, self.timing]
        except OSError as error:
            self._close()
            where = error.filename or self.folder
            raise RecordError(f"cannot write {where}: {error.strerror}") from error
        except BaseException:
            self._close()
            raise
        return self

    def _check_folder(self) -> None:
        """Refuse a folder that holds something else, before anything is written to it."""
        if (self.folder / SETTINGS).exists():
            return
        strangers = [path.name for path in self.folder.iterdir() if not _is_ours(path)]
        if strangers:
            raise RecordError(
                f"{self.folder} is not a run and holds other files ({sorted(strangers)[0]}, ...)"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None and self._is_new and not self.metrics.path.stat().st_size:
                self._discard()
        finally:
            self._close()

    def _close(self) -> None:
        for journal in self._journals:
            journal.close()
        if self._lock is not None:
            self._lock.release()

    def _discard(self) -> None:
        """Remove a run that this process began and that recorded no step: nothing is lost."""
        with suppress(OSError):
            self._clear()
            (self.folder / LOCK).unlink(missing_ok=True)
            self.folder.rmdir()

    def _claim(self) -> None:
        """Make the folder this run's, or refuse it where it holds another run."""
        if (self.folder / SETTINGS).exists() and not self._force:
            self._refuse_other_settings()
            return
        if (self.folder / SETTINGS).exists():
            self._clear()
        self._is_new = True
        write_settings(self.folder, self.settings)

    def _refuse_other_settings(self) -> None:
        record = Record(self.folder)
        differences = _differences(record.settings, self.settings)
        if not differences:
            return
        if record.settings.task == self.settings.task:
            # A text that has grown asks for other sizes: then these are not what was changed.
            refuse_other_data(record.name, self._recorded_facts(), self._source)
        raise RecordError(
            f"run {record.name} has {'; '.join(differences)}: rda train {self.folder / SETTINGS} "
            "goes on with it, another --name makes another run, and --force starts it over"
        )

    def _recorded_facts(self) -> Mapping[str, Any]:
        with suppress(CheckpointError, OSError):
            found, _ = checkpoint.load_latest(self.folder / CHECKPOINTS, remove_bad=False)
            if found is not None:
                return recorded_facts(found.values)
        return {}

    def _clear(self) -> None:
        """Remove what the run has recorded.

        Checkpoints go first: where they cannot be removed, everything else stays. The settings go
        last: without them this is not a run any more.
        """
        checkpoint.clear(self.folder / CHECKPOINTS)
        events = self.folder / TENSORBOARD
        if events.is_symlink():
            events.unlink()
        elif events.exists():
            shutil.rmtree(events)
        for name in FILES:
            (self.folder / name).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove what saves that were cut off have left."""
        for folder in (self.folder, self.folder / CHECKPOINTS):
            for path in folder.glob(".*.tmp"):
                if _CUT_OFF.fullmatch(path.name):
                    path.unlink(missing_ok=True)

    @property
    def status(self) -> Status:
        """The status as last written."""
        return Record(self.folder).status

    def damaged(self) -> list[str]:
        """The files of a run that has ended that are missing or were changed since."""
        return Record(self.folder).damaged()

    def resume(self) -> tuple[Checkpoint | None, Iterator[dict[str, Any]], list[str]]:
        """The checkpoint to continue from, the rows up to it, and lines to tell the user.

        Whatever was recorded after that checkpoint does not count, and `begin` removes it: it will
        be made again.
        """
        try:
            found, notes = checkpoint.load_latest(self.folder / CHECKPOINTS)
            marks = {} if found is None else found.values
            if found is None:
                self._check_that_nothing_was_saved()
            if found is None and self.metrics.path.stat().st_size:
                notes = ["no checkpoint was finished before it stopped: beginning again"]
            kept = self.metrics.go_back_to(marks.get("metrics"))
            self.timing.go_back_to(marks.get("timing"))
        except (CheckpointError, JournalError) as error:
            raise RecordError(f"{error}; --force starts over") from error
        except OSError as error:
            raise RecordError(f"cannot read {error.filename}: {error.strerror}") from error
        if found is not None:
            _refuse_other_checkpoint(self.folder.name, found, self.settings)
            refuse_other_data(self.folder.name, recorded_facts(found.values), self._source)
        return found, (row_of(line, METRICS) for line in kept.splitlines()), notes

    def _check_that_nothing_was_saved(self) -> None:
        """Raise where a checkpoint was saved and is not found: its disk may be away.

        Beginning again would destroy a record that can be continued when the disk is back.
        """
        status = self.status
        # A status is written before the first row is.
        lost = not (self.folder / STATUS).exists() and self.metrics.path.stat().st_size > 0
        if not status.has_saved and not lost:
            return
        folder, step = self.folder / CHECKPOINTS, status.saved_step
        if not status.ended and step is not None and checkpoint.is_cut_off(folder, step):
            return
        at = "" if step is None else f" at step {step}"
        what = f"has lost its {STATUS}, and" if lost else f"was saved{at}, but"
        raise CheckpointError(
            f"run {self.folder.name} {what} {folder} has no checkpoint that can be used: they may "
            "be on another disk, which is away"
        )

    def save(
        self, step: int, tensors: Mapping[str, Any], values: Mapping[str, Any], status: Status
    ) -> None:
        """A checkpoint of everything, the position in the records included.

        The status, which tells of the checkpoint, is written before that counts: a kill between
        the two leaves a checkpoint without its checksum, and that can be seen.
        """
        marks = {"metrics": self.metrics.mark(), "timing": self.timing.mark()}
        content = {**self._with_facts(values), **marks, "step": step}
        content["settings"] = identity(self.settings)
        whole = Checkpoint(step, dict(tensors), content)
        checkpoint.save(self.folder / CHECKPOINTS, whole, lambda: self.write_status(status))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row to `metrics.jsonl`."""
        self.metrics.append(row)

    def keep_sample(self, step: int, text: str, before: int) -> None:
        """Write what a model of text writes at a step, beside those up to the step `before`.

        Later ones are of an earlier start.
        """
        path = self.folder / SAMPLES
        written = read_plain(path).decode(errors="replace") if path.exists() else ""
        kept = [line for line in written.splitlines() if _step_of(line) <= before]
        kept.append(json.dumps({"step": step, "text": text}))
        write_atomically(path, ("\n".join(kept) + "\n").encode(errors="replace"))

    def append_timing(self, step: int, seconds: float) -> None:
        """Record how long training has taken."""
        self.timing.append({"step": step, "seconds": round(seconds, 3)})

    def begin(self, entry: Callable[[], dict[str, Any]], status: Status) -> None:
        """Record that training starts here: its settings, its environment, its status."""
        # The status comes first: from here on the run has not ended, and its files may change.
        self.write_status(status)
        write_settings(self.folder, self.settings)  # the limits may be new
        write_environment(self.folder, [*Record(self.folder).environment, entry()])
        for name in (MANIFEST, *DERIVED):
            (self.folder / name).unlink(missing_ok=True)
        for journal in self._journals:
            journal.cut()

    def write_status(self, status: Status) -> None:
        """Replace `status.json`."""
        write_status(self.folder, status)

    def end(self, status: Status, weights: Mapping[str, Any], values: Mapping[str, Any]) -> Status:
        """Write the weights to use and the last status; a run that has ended gets its manifest.

        The manifest comes before the status that says that there is one, so that a kill between
        the two leaves a run that has not ended yet.
        """
        model = checkpoint.pack(weights, self._with_facts(values))
        write_atomically(self.folder / MODEL, model)
        status = replace(status, sealed=status.ended)
        if status.ended:
            write_manifest(self.folder, SEALED, {STATUS: as_json(asdict(status))})
        self.write_status(status)
        return status

    def _with_facts(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**values, "data": self._source.facts()}


def refuse_foreign_checkpoint(folder: Path, settings: RunSettings) -> None:
    """Raise where a folder's settings are those asked for, and its last checkpoint has others.

    This needs no model, which settings that somebody has changed could make as large as they like.
    """
    found = None
    with suppress(CheckpointError, RecordError, OSError):
        if identity(Record(folder).settings) == identity(settings):
            found, _ = checkpoint.load_latest(folder / CHECKPOINTS, remove_bad=False)
    if found is not None:
        _refuse_other_checkpoint(folder.name, found, settings)


def _refuse_other_checkpoint(name: str, found: Checkpoint, settings: RunSettings) -> None:
    if _completed(found.values.get("settings"), settings) != identity(settings):
        raise RecordError(
            f"the checkpoint of run {name} was made with other settings than its "
            f"{SETTINGS} now says; --force starts over"
        )


def _step_of(line: str) -> float:
    """The step of a sample; infinite where the line cannot be read."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return math.inf


def _completed(saved: Any, asked: RunSettings) -> Any:
    """The settings of a checkpoint, with the defaults of settings that were added since."""
    sections = [saved.get(name) for name in ("task", "recipe")] if isinstance(saved, dict) else []
    if not sections or not all(isinstance(section, dict) for section in sections):
        return saved
    whole = {name: with_defaults(getattr(asked, name), saved[name]) for name in ("task", "recipe")}
    return without_its_end({**saved, **whole})


def _is_ours(path: Path) -> bool:
    return path.name == LOCK or path.name.startswith(".")


def _differences(recorded: RunSettings, asked: RunSettings) -> list[str]:
    """What the settings of a run have, and not those that are asked for."""
    if recorded.task.name != asked.task.name:
        return [f"task {recorded.task.name}, not {asked.task.name}"]
    if recorded.unit != asked.unit:
        return [f"unit {recorded.unit}, not {asked.unit}"]
    found = []
    old, new = identity(recorded), identity(asked)
    for section in ("task", "recipe"):
        for name, value in old[section].items():
            if value != new[section][name]:
                found.append(f"{name} {value}, not {new[section][name]}")
    return found
