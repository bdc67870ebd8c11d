"""Training from Python: a run from its settings to its record."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import torch

from rda.data.store import load as load_data
from rda.settings import Limits
from rda.training import checkpoint
from rda.training.building import build_stepper
from rda.training.following import follow
from rda.training.listening import Listener, Quiet
from rda.training.loop import run_training
from rda.training.record import CHECKPOINTS, SETTINGS, Record
from rda.training.resources import check_precision, enough_memory, find_device
from rda.training.run import Run, refuse_foreign_checkpoint
from rda.training.settings import RunSettings, identity
from rda.training.status import RecordError, Status
from rda.training.team import device_of_member, leadership, team
from rda.training.tensorboard import EventFiles
from rda.training.torchrun import processes


def train(
    settings: RunSettings,
    folder: Path | str,
    *,
    device: str = "auto",
    engine: str = "auto",
    threads: int = 0,
    files: Mapping[str, bytes] | None = None,
    force: bool = False,
    checkpoint_minutes: float = 1.0,
    tensorboard: bool = False,
    listener: Listener | None = None,
    command: str | None = None,
    accumulate: int = 1,
) -> Record:
    """Train a run from where it stands to its goal or a limit, and return its record.

    The folder holds everything: the same call with the same folder continues where the last one
    stopped, and returns at once when the run is finished. Ctrl-C saves and returns with the
    status "interrupted".

    Args:
        settings: task, unit, recipe and limits.
        folder: where the run is recorded; made where it is not there.
        device: "cpu", "cuda", "cuda:1", ...; "auto" is the GPU where there is one.
        engine: the engine of the unit, or "auto".
        threads: CPU threads; 0 leaves torch's setting alone.
        files: the contents of the task's data set; None looks for it, and downloads it where
            it is missing.
        force: start over, even where the run is finished.
        checkpoint_minutes: time between checkpoints; 0 for one after every step.
        tensorboard: also write event files for TensorBoard into the folder.
        listener: told of progress; None shows nothing.
        command: recorded as the command that started the training.
        accumulate: in how many pieces each process computes its rows of a batch, one after the
            other, where memory is short.

    Where torchrun has started several processes, they share the rows of each batch, and the run is
    the same run. The first of them records it; what the others return is read from the same folder
    where they see it.

    Raises:
        RecordError: the folder is in use, holds another run, or cannot be read or written.
        EngineUnavailableError: the engine cannot run this unit here.
        DeviceError, NotEnoughMemoryError, DataError: as their names say.
    """
    if not force and (kept := _thinned(settings, Path(folder))) is not None:
        return kept
    if not force:
        refuse_foreign_checkpoint(Path(folder), settings)
    where = find_device(device_of_member(device))
    check_precision(settings.unit, settings.recipe.precision, where)
    check_rows(settings.recipe.batch_size)
    if threads:
        torch.set_num_threads(threads)
    if files is None:
        files = read_files(settings, progress=False)
    listener = Quiet() if listener is None else listener
    with ExitStack() as stack:
        stack.enter_context(enough_memory())
        members = team()
        stepper = build_stepper(settings, where, engine, files, members, accumulate)
        stepper.engine()  # raises before a folder is made where the engine cannot serve
        if not members.leads:
            return Record(folder, follow(stepper))
        leading = stack.enter_context(leadership(members))
        if tensorboard:
            listener = stack.enter_context(EventFiles(listener, Path(folder)))
        run = stack.enter_context(Run(Path(folder), settings, stepper.source, force=force))
        seconds = 60 * checkpoint_minutes
        status = _without_checkpoints(run) or run_training(
            run, stepper, listener, checkpoint_seconds=seconds, command=command
        )
        leading.ended(status.state)
    return Record(folder, status)


def check_rows(batch_size: int) -> None:
    """Each process needs a row; asked before any waits for the others."""
    if batch_size < processes():
        raise RecordError(
            f"batch_size should be {processes()} or more, a sequence for each process, got "
            f"{batch_size}"
        )


def _thinned(settings: RunSettings, folder: Path) -> Record | None:
    """The record of a run that has ended and was thinned: there is nothing left to continue."""
    if not (folder / SETTINGS).exists():
        return None
    record = Record(folder)
    try:
        status = record.status
    except RecordError:
        return None  # a damaged status is made again from the checkpoint
    if not status.thinned or identity(record.settings) != identity(settings):
        return None
    _refuse_to_continue(f"{record.name} was thinned", status, settings.limits)
    return record


def _without_checkpoints(run: Run) -> Status | None:
    """The status of a whole run that has ended and whose checkpoints were removed since."""
    if checkpoint.any_in(run.folder / CHECKPOINTS) or run.damaged():
        return None
    status = run.status
    if not status.ended:
        return None
    ended = f"{run.folder.name}, whose checkpoints are gone, ended"
    _refuse_to_continue(ended, status, run.settings.limits)
    return status


def _refuse_to_continue(what: str, status: Status, limits: Limits) -> None:
    """Raise where the limits ask for more than a run has that ended and cannot be continued."""
    goals = {"goal": status.goal_step, "trailing": status.trailing_goal_step}
    if goals.get(limits.stop_at) is None and status.step < limits.steps:
        raise RecordError(
            f"run {what} after step {status.step} and cannot be continued; --force trains it again"
        )


def read_files(
    settings: RunSettings, data_dir: Path | str | None = None, progress: bool = True
) -> dict[str, bytes] | None:
    """The contents of the task's data set, downloaded where missing; None where it has none."""
    if settings.task.dataset is None:
        return None
    folder = Path(data_dir) if data_dir else None
    if not progress:
        return load_data(settings.task.dataset, folder, fetch_missing=True)
    from rda.training.progress import fetching

    with fetching() as bar:
        return load_data(settings.task.dataset, folder, fetch_missing=True, progress=bar)
