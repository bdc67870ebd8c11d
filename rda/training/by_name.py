"""`rda.train`: a task and a unit by name, settings as keywords, a record back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rda.labels import unit_label
from rda.options import default_runs
from rda.tasks import Task
from rda.training import running
from rda.training.listening import Listener
from rda.training.record import Record, check_name
from rda.training.settings import (
    RunSettings,
    default_name,
    settings_for,
    suited,
    with_changes,
)
from rda.training.status import INTERRUPTED
from rda.training.torchrun import follows


def train(
    task: str | Task,
    unit: str,
    *,
    small: bool = False,
    folder: Path | str | None = None,
    device: str = "auto",
    engine: str = "auto",
    threads: int = 0,
    accumulate: int = 1,
    data_dir: Path | str | None = None,
    force: bool = False,
    checkpoint_minutes: float = 1.0,
    tensorboard: bool = False,
    progress: bool = True,
    **changes: Any,
) -> Record:
    """Train a unit on a task and return the record: `rda.train("copy", "RDA", small=True)`.

    Args:
        task: the name of a task, or a task with settings of its own.
        unit: a label such as "RDA-exp-tanh", "RWA", "LSTM"; "RDA" is "RDA-exp-tanh".
        small: start from the task's small twin instead of its full size.
        folder: where the run is recorded; by default a folder in `runs`, or in $RDA_RUNS, named
            after task, unit, seed and settings. The same call continues the run.
        device, engine, threads, accumulate, force, checkpoint_minutes, tensorboard: as for
            `rda.training.train`.
        data_dir: folder with the task's data set ($RDA_DATA); it is downloaded where missing.
        progress: show a bar with the time left.
        **changes: settings of the task, the recipe and the limits by name, such as `length`,
            `hidden_size`, `learning_rate`, `seed`, `steps`, `stop_at`.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; everything is saved, the same call continues.
        Others: as for `rda.training.train`, and a ValueError for a wrong name or value.
    """
    changes = {name: str(v) if isinstance(v, Path) else v for name, v in changes.items()}
    if "data" in changes and not isinstance(changes["data"], str):
        changes["data"] = _held(changes)
    settings = _settings(task, unit_label(unit), small, changes)
    if folder is None:
        folder = default_runs() / check_name(default_name(settings))
    options: dict[str, Any] = {
        "device": device,
        "engine": engine,
        "threads": threads,
        "accumulate": accumulate,
        "force": force,
        "checkpoint_minutes": checkpoint_minutes,
        "tensorboard": tensorboard,
        "files": running.read_files(settings, data_dir, progress),
    }
    with watched(settings, progress and not follows()) as listener:
        record = running.train(settings, folder, listener=listener, **options)
    if record.status.state == INTERRUPTED:
        raise KeyboardInterrupt(f"saved in {record.folder}; the same call continues")
    return record


@contextmanager
def watched(settings: RunSettings, progress: bool) -> Iterator[Listener | None]:
    """A bar with the time left, where `progress` asks for one."""
    if not progress:
        yield None
        return
    from rda.training.progress import TrainingProgress

    bar = TrainingProgress()
    with bar.watching(settings):
        yield bar


def _settings(task: str | Task, unit: str, small: bool, changes: dict[str, Any]) -> RunSettings:
    if isinstance(task, str):
        return settings_for(task, unit, small, changes)
    if not isinstance(task, Task):
        hint = f", such as {task.__qualname__}()" if isinstance(task, type) else ""
        got = f"the class {task.__qualname__}" if isinstance(task, type) else type(task).__name__
        raise TypeError(f"task should be the name of a task or a task{hint}, got {got}")
    if small:
        raise ValueError("small goes with the name of a task, not with a task of your own sizes")
    preset = suited(task, changes) or replace(task.full(), task=task)
    return with_changes(RunSettings(preset.task, unit, preset.recipe, preset.limits), changes)


def _held(changes: dict[str, Any]) -> str:
    """The name under which sequences from arrays or frames are found again."""
    from rda.sequences import Sequences, read
    from rda.sequences.stored import hold
    from rda.tasks.own_sequences import OwnSequences

    data = changes["data"]
    if isinstance(data, Sequences):
        return hold(data)
    names = {part.name for part in fields(OwnSequences)} & changes.keys() - {"data"}
    return hold(read(data, OwnSequences(**{name: changes[name] for name in names}).roles()))
