"""What `train`, `compare` and `demo` share: from arguments to a trained run."""

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from rda.commands.arguments import UsageError
from rda.commands.progress import TrainingProgress, check_tensorboard, fetching
from rda.data.errors import DataError
from rda.data.store import load
from rda.tasks.settings import TaskSettings, check_at_least
from rda.training.record import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    STOPPED,
    RecordError,
    Status,
    check_name,
)
from rda.training.settings import (
    Limits,
    Recipe,
    RunSettings,
    paper_settings,
    small_settings,
)
from rda.training.settings_file import to_table

if TYPE_CHECKING:
    import torch

ChosenTask = TypeVar("ChosenTask", bound=TaskSettings)

EXIT_CODES = {FINISHED: 0, FAILED: 1, STOPPED: 3, INTERRUPTED: 130}


def default_runs() -> Path:
    """$RDA_RUNS, or `runs` here."""
    return Path(os.environ.get("RDA_RUNS") or "runs")


@dataclass(frozen=True)
class Machine:
    """What it runs on."""

    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is the GPU where there is one."""
    engine: str = "auto"
    """Of RDA and RWA, `rda doctor` lists them; "torch" also takes torch's own LSTM and GRU."""
    threads: int = 0
    """CPU threads; 0 for as many as torch takes."""

    def __post_init__(self) -> None:
        check_at_least("threads", self.threads, 0)


@dataclass(frozen=True)
class Place:
    """Where it is kept."""

    name: str = ""
    """Name of the run, or of the comparison; else made of task, unit and seed."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""
    data_dir: str = ""
    """Folder with MNIST or enwik8, gz, zip or raw ($RDA_DATA); else they are downloaded."""
    checkpoint_minutes: float = 1.0
    """Between checkpoints; 0 for one after every step."""
    force: bool = False
    """Start over, even where the run is finished."""
    tensorboard: bool = False
    """Also write event files for TensorBoard into the run's folder."""

    def __post_init__(self) -> None:
        check_at_least("checkpoint_minutes", self.checkpoint_minutes, 0)


@dataclass(frozen=True)
class Training(Generic[ChosenTask]):
    """What can be set about training on one task."""

    task: ChosenTask
    recipe: Recipe
    limits: Limits
    machine: Machine = field(default_factory=Machine)
    place: Place = field(default_factory=Place)


def defaults(settings: RunSettings) -> Training[TaskSettings]:
    """The arguments that would give these settings."""
    return Training(settings.task, settings.recipe, settings.limits)


def default_name(settings: RunSettings) -> str:
    """Task, unit and seed, "small" for the small twin, a digest for any other settings."""
    seed = settings.recipe.seed
    for kind, usual in (("", paper_settings), ("-small", small_settings)):
        known = usual(settings.task.name, settings.unit)
        known = replace(known, recipe=replace(known.recipe, seed=seed), limits=settings.limits)
        if settings == known:
            return f"{settings.task.name}-{settings.unit}{kind}-seed{seed}"
    table = to_table(replace(settings, limits=Limits()))
    digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
    return f"{settings.task.name}-{settings.unit}-seed{seed}-{digest[:6]}"


def folder_for(place: Place, name: str) -> Path:
    """The folder of a run or a comparison; its name must be a plain one."""
    try:
        return place.runs_dir / check_name(name)
    except RecordError as error:
        raise UsageError(str(error)) from error


def check(machine: Machine, place: Place, name: str) -> None:
    """Find out what is wrong with these arguments before anything is downloaded or trained."""
    folder_for(place, name)
    usable_device(machine.device)
    _check_engine(machine.engine)
    if place.tensorboard:
        check_tensorboard()


def read_files(settings: TaskSettings, place: Place) -> dict[str, bytes] | None:
    """The data of a task that has some, downloaded where it is not there."""
    if settings.dataset is None:
        return None
    folder = Path(place.data_dir) if place.data_dir else None
    try:
        with fetching() as progress:
            return load(settings.dataset, folder, fetch_missing=True, progress=progress)
    except DataError as error:
        raise UsageError(str(error)) from error


def train_one(
    settings: RunSettings,
    machine: Machine,
    place: Place,
    name: str,
    files: dict[str, bytes] | None,
    progress: TrainingProgress,
) -> tuple[Path, Status]:
    """One run, from where it stands to its end; its folder and how it ended."""
    folder = folder_for(place, name)
    device = usable_device(machine.device)
    _use_threads(machine.threads)
    from rda.scan.dispatch import EngineUnavailableError
    from rda.training.building import build_stepper
    from rda.training.loop import train
    from rda.training.run import Run

    try:
        with _impossible_as_usage(), _warnings_as_lines(progress):
            stepper = build_stepper(settings, device, machine.engine, files)
            with (
                Run(folder, settings, force=place.force) as run,
                progress.watching(settings, folder, place.tensorboard),
            ):
                seconds = 60 * place.checkpoint_minutes
                status = train(run, stepper, progress, checkpoint_seconds=seconds)
    except (RecordError, EngineUnavailableError) as error:
        raise UsageError(str(error)) from error
    return folder, status


def usable_device(name: str) -> "torch.device":
    """The device by its name, or the GPU, if there is one, for "auto"."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
        torch.Generator(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device {name!r} cannot be used: {reason}") from error
    return device


def _use_threads(threads: int) -> None:
    import torch

    if threads:
        torch.set_num_threads(threads)


def _check_engine(engine: str) -> None:
    from rda.scan.dispatch import check_engine_name

    try:
        check_engine_name(engine)
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextmanager
def _warnings_as_lines(progress: TrainingProgress) -> Iterator[None]:
    """A warning is a line like any other, not a place in our source."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest: progress.say(f"note: {message}")
        yield


@contextmanager
def _impossible_as_usage() -> Iterator[None]:
    """Sizes that no memory holds are a wish that cannot be met, not a fault of ours."""
    try:
        yield
    except MemoryError as error:
        raise UsageError("not enough memory for these sizes") from error
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if any(word in reason.lower() for word in ("alloc", "out of memory", "overflow")):
            wanted = re.search(r"allocate [\d.]+ \w+", reason)
            what = f": could not {wanted[0]}" if wanted else ""
            raise UsageError(f"these sizes need more memory than there is{what}") from error
        raise
