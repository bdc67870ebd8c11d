"""What `train`, `compare` and `demo` share: from a command line to a trained run."""

import argparse
import shlex
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rda.commands.parser import Parser, UsageError, add_options, given_values, make
from rda.labels import COMPARED, UNIT_LABELS, unit_label
from rda.options import Cluster, Machine, Place, Seeds, default_runs
from rda.settings import Limits, Recipe
from rda.tasks import Task, all_tasks, description
from rda.training.record import Record, check_name
from rda.training.settings import RunSettings, settings_for, with_changes
from rda.training.status import FAILED, INTERRUPTED, RecordError, Status

if TYPE_CHECKING:
    from rda.training.progress import TrainingProgress


def add_tasks(
    parser: Parser, explain: bool, units: str, more: Mapping[str, tuple[str, type]] | None = None
) -> None:
    """A subcommand for each task, with all that can be set about training on it.

    `more` has options for some tasks by name: the title of their group and their dataclass.
    """
    tasks = parser.add_subparsers(title="tasks", dest="task", metavar="TASK", prog=parser.prog)
    for name, task in all_tasks().items():
        described = description(task)
        where = f" ({task.reference})" if task.reference else ""
        one = tasks.add_parser(name, help=described, description=_describe(task))
        one.usage = f"{one.prog} {units} [--small] [options]"
        one.set_defaults(parser=one)
        one.add_argument(
            "unit", nargs="*", metavar="UNIT", help="label of a unit, such as RDA-exp-tanh"
        )
        one.add_argument(
            "--small", action="store_true", help="start from the small twin of the task"
        )
        full, small = task.full(), task.small()
        for title, owner, key in (
            (f"the task{where}", task, "task"), ("recipe", Recipe, "recipe"),
            ("limits", Limits, "limits"),
        ):  # fmt: skip
            presets = [("full", getattr(full, key)), ("small", getattr(small, key))]
            add_options(one, title, owner, explain, presets)
        if more and name in more:
            add_options(one, *more[name], explain)
        else:
            add_options(one, "seeds", Seeds, explain)
        add_options(one, "machine", Machine, explain)
        add_options(one, "cluster", Cluster, explain)
        add_options(one, "record and data", Place, explain)


def _describe(task: type[Task]) -> str:
    return f"{' '.join(description(task).split())}\n\nUnits: {unit_list()}"


def unit_argument(text: str) -> str:
    """A unit by its label."""
    label: str = make(unit_label, {"name": text})
    return label


def settings_from(asked: argparse.Namespace, unit: str) -> RunSettings:
    """The settings that a command line asks for, for one unit."""
    if asked.start and asked.small:
        raise UsageError("--small does not go with a settings file: it has its own sizes")
    changes = {
        name: value
        for owner in (all_tasks()[asked.task], Recipe, Limits)
        for name, value in given_values(asked, owner).items()
    }
    if asked.start:
        given = {"settings": asked.start, "changes": changes}
        settings: RunSettings = make(with_changes, given)
    else:
        given = {"task": asked.task, "unit": unit, "small": asked.small, "changes": changes}
        settings = make(settings_for, given)
    return settings


def machine_and_place(asked: argparse.Namespace) -> tuple[Machine, Place]:
    """Where to compute and where to record, as a command line asks for."""
    return (
        make(Machine, given_values(asked, Machine)),
        make(Place, given_values(asked, Place)),
    )


def folder_for(place: Place, name: str) -> Path:
    """The folder of a run or a comparison; its name must be a plain one."""
    with as_usage_errors():
        return place.runs_dir / check_name(name)


def check(machine: Machine, place: Place, units: Sequence[str], here: bool = True) -> None:
    """Find out what is wrong with these options before anything is downloaded or trained.

    Runs that are not trained `here` need no device of this machine.
    """
    from rda.catalogue import check_engine
    from rda.training.resources import find_device
    from rda.training.tensorboard import check_tensorboard

    for unit in units:
        make(check_engine, {"unit": unit, "engine": machine.engine})
    with as_usage_errors():
        if here:
            find_device(machine.device)
        if place.tensorboard:
            check_tensorboard()


def read_files(settings: RunSettings, place: Place) -> dict[str, bytes] | None:
    """The data set of a task that has one, downloaded where it is missing."""
    from rda.training.running import read_files as read

    with as_usage_errors():
        return read(settings, place.data_dir or None)


def read_files_of(runs: Iterable[RunSettings], data_dir: str) -> dict[str, dict[str, bytes] | None]:
    """The data sets of several runs, by task."""
    from rda.training.running import read_files as read

    found: dict[str, dict[str, bytes] | None] = {}
    with as_usage_errors():
        for settings in runs:
            if settings.task.name not in found:
                found[settings.task.name] = read(settings, data_dir or None)
    return found


def train_one(
    settings: RunSettings,
    machine: Machine,
    place: Place,
    name: str,
    files: dict[str, bytes] | None,
    progress: "TrainingProgress",
    command: str,
) -> Record:
    """One run, from where it stands to its end."""
    from rda.training.running import train

    folder = folder_for(place, name)
    with as_usage_errors(), _warnings_as_lines(progress), progress.watching(settings):
        return train(
            settings,
            folder,
            device=machine.device,
            engine=machine.engine,
            threads=machine.threads,
            accumulate=machine.accumulate,
            files=files,
            force=place.force,
            checkpoint_minutes=place.checkpoint_minutes,
            tensorboard=place.tensorboard,
            listener=progress,
            command=command,
        )


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Everything that can be wrong with what was asked for, as one line and exit code 2."""
    from rda.data.errors import DataError
    from rda.scan.dispatch import EngineUnavailableError
    from rda.sequences import SequencesError
    from rda.training.resources import DeviceError, NotEnoughMemoryError
    from rda.training.tensorboard import MissingPackageError

    try:
        yield
    except (
        RecordError, DataError, EngineUnavailableError, DeviceError, NotEnoughMemoryError,
        MissingPackageError, SequencesError,
    ) as error:  # fmt: skip
        raise UsageError(" ".join(str(error).split())) from error


@contextmanager
def _warnings_as_lines(progress: "TrainingProgress") -> Iterator[None]:
    """Show a warning as a line, without the place in our source that it came from."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest: progress.say(f"note: {message}")
        yield


def outcome(unit: str, status: Status) -> str:
    """One line on how a run ended."""
    rate = f", {status.step / status.seconds:.3g} steps/s" if status.seconds else ""
    line = f"{unit}: {status.state}, {status.reason} ({status.step} steps{rate})"
    if status.test:
        tested = (f"{name.replace('_', ' ')} {value:.4g}" for name, value in status.test.items())
        line += f"; best at step {status.best_step}: {', '.join(tested)}"
    if status.skipped_steps:
        line += f"; {status.skipped_steps} steps were skipped because they were not finite"
    if status.state == FAILED:
        line += "; the last good checkpoint is kept"
    if status.state == INTERRUPTED:
        line += "; everything is saved, the same command continues from there"
    return line


def show_command(folder: Path) -> str:
    """The command that shows this run, wherever its folder is."""
    runs = folder.parent
    where = [] if runs == default_runs() else ["--runs-dir", str(runs)]
    return shlex.join(["rda", "show", folder.name, *where])


def unit_list() -> str:
    """The units in words."""
    others = ", ".join(label for label in UNIT_LABELS if label not in COMPARED)
    names = f"{', '.join(COMPARED)}; RDA is {unit_label('RDA')}. Section 6.2 has others: {others}."
    return textwrap.fill(names, 92, break_on_hyphens=False)
