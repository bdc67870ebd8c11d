"""All tasks by name: those of this folder, those of installed packages, and a person's own.

A task registers itself with the decorator `register`. Three places are looked at:

1. the modules of this folder;
2. the entry points of the group "rda.tasks" of installed packages;
3. $RDA_TASKS: Python files or importable modules, separated as in $PATH.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
import warnings
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

from rda.names import unknown_name
from rda.options import Cluster, Machine, Place, Seeds
from rda.settings import Limits, Recipe
from rda.tasks.task import Task

ENTRY_POINTS = "rda.tasks"
VARIABLE = "RDA_TASKS"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
RESERVED = {
    *(
        field.name
        for owner in (Recipe, Limits, Machine, Place, Seeds, Cluster)
        for field in fields(owner)
    ),
    "task", "unit", "small", "help", "start", "parser", "command",  # more of a command line
    "folder", "progress",  # more of rda.train
}  # fmt: skip
"""Names of built-in settings and options; a task's own settings need other names."""

_tasks: dict[str, type[Task]] = {}
_loaded: set[str] = set()
_unusable: dict[str, str] = {}
"""What is said of each place of $RDA_TASKS, and of each task, that cannot be used."""

AnyTask = TypeVar("AnyTask", bound=type[Task])


class TaskError(ValueError):
    """A task that cannot be used, and why."""


class TaskWarning(UserWarning):
    """A place of tasks cannot be used; others can."""


def register(task: AnyTask) -> AnyTask:
    """Make a task known by its name; use it as a decorator, above `@dataclass(frozen=True)`."""
    _check(task)
    known = _tasks.get(task.name)
    if known is not None and _origin(known) != _origin(task):
        raise TaskError(f"task {task.name!r} is already defined by {known.__module__}")
    _tasks[task.name] = task
    return task


def all_tasks() -> dict[str, type[Task]]:
    """Every task by name: those of this folder by file name, then the others as they came."""
    _load_all()
    ours = {name: task for name, task in _tasks.items() if is_of_package(task)}
    others = {name: task for name, task in _tasks.items() if name not in ours}
    by_file = sorted(ours.items(), key=lambda item: item[1].__module__)
    usable = {
        name: task
        for name, task in others.items()
        if _has_sizes(task)  # type: ignore[arg-type]  # mypy: a type is not hashable
    }
    return {**dict(by_file), **usable}


def description(task: type[Task]) -> str:
    """The docstring of a task; its title where Python left docstrings away (-OO)."""
    return _docstring(task) or task.title


def _docstring(task: type[Task]) -> str:
    doc = (task.__doc__ or "").strip()
    is_of_dataclass = doc.startswith(f"{task.__name__}(")
    return "" if is_of_dataclass else doc


def is_of_package(task: type[Task]) -> bool:
    """Whether it is one of this folder's."""
    return task.__module__.startswith("rda.tasks.")


@cache
def _has_sizes(task: type[Task]) -> bool:
    """Whether a person's task can be made in both sizes. One that cannot is told, and left out."""
    for size in ("full", "small"):
        try:
            getattr(task, size)()
        except Exception as error:
            _tell(
                task.name,
                f"task {task.name!r} cannot be used: {task.__qualname__}.{size}() raised "
                f"{type(error).__name__}: {error} (a setting has a type: `length: int = 20`)",
            )
            return False
    return True


def _tell(what: str, why: str) -> None:
    """Warn of what cannot be used, again only where another mistake is found in it."""
    if _unusable.get(what) != why:
        _unusable[what] = why
        warnings.warn(why, TaskWarning, stacklevel=2)


def find_task(name: str) -> type[Task]:
    """The task of this name; a ValueError with the nearest name where there is none."""
    tasks = all_tasks()
    if name not in tasks:
        hint = f"a task of your own is found through ${VARIABLE}"
        hint = ", and ".join((hint, *_unusable.values()))
        raise TaskError(f"{unknown_name('task', name, tasks)}; {hint}")
    return tasks[name]


def _load_all() -> None:
    package = importlib.import_module("rda.tasks")
    for module in pkgutil.iter_modules(package.__path__, "rda.tasks."):
        importlib.import_module(module.name)
    if ENTRY_POINTS not in _loaded:
        _loaded.add(ENTRY_POINTS)
        _load_entry_points()
    for place in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        _load_place(place)


def _load_entry_points() -> None:
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:  # someone else's package must not stop ours
            _tell(point.value, f"the tasks of {point.value} cannot be used: {error}")


def _load_place(place: str) -> None:
    path = Path(place).expanduser().absolute() if place.endswith(".py") else None
    key = place if path is None else str(path)
    if key in _loaded:
        return
    try:
        if path is None:
            importlib.import_module(place)
        elif path.is_file():
            _load_file(path)
        else:
            raise TaskError(f"there is no file {path}")
    except Exception as error:  # other tasks work nevertheless
        kind = "" if isinstance(error, TaskError) else f"{type(error).__name__}: "
        reason = f"{kind}{error}".splitlines()[0]
        _tell(key, f"{place} of ${VARIABLE} cannot be used: {reason}")
    else:
        _loaded.add(key)
        _unusable.pop(key, None)


def _load_file(path: Path) -> None:
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    spec = importlib.util.spec_from_file_location(f"rda_task_{path.stem}_{digest}", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up the types of their fields
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise


def _origin(task: type[Task]) -> tuple[str, str]:
    """The file and the class: one file may be imported under two names."""
    file = getattr(sys.modules.get(task.__module__), "__file__", None)
    return file or task.__module__, task.__qualname__


def _check(task: object) -> None:
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise TypeError(f"a task should be a class derived from rda.tasks.Task, got {task!r}")
    what = task.__qualname__
    if not (is_dataclass(task) and "__dataclass_params__" in vars(task)):
        raise TypeError(f"{what} should be decorated with @dataclass(frozen=True)")
    name = getattr(task, "name", None)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise TypeError(
            f"{what}.name should be lower-case letters, digits and dashes, got {name!r}"
        )
    if not isinstance(getattr(task, "title", None), str):
        raise TypeError(f"{what}.title should be a str")
    if not _docstring(task) and sys.flags.optimize < 2:
        raise TypeError(f"{what} should have a docstring: it is the task's help")
    hints = get_type_hints(task)
    switches = {name for owner in (task, Recipe, Limits) for name in _switches(owner)}
    for field in fields(task):
        if field.name in RESERVED:
            raise TypeError(f"{what}.{field.name} is the name of a built-in setting: rename it")
        if field.name.startswith("no_") and field.name[3:] in switches:
            raise TypeError(f"{what}.{field.name} is how {field.name[3:]} is turned off: rename it")
        kind = hints[field.name]
        is_names = get_origin(kind) is Literal and all(isinstance(n, str) for n in get_args(kind))
        if kind not in (int, float, bool, str) and not is_names:
            raise TypeError(
                f"{what}.{field.name} should be int, float, bool, str or a Literal of str"
            )
    if task.goal is not None and task.goal.column not in ("loss", task.metric):
        raise TypeError(
            f"{what}.goal should be about loss or {task.metric}, got {task.goal.column!r}"
        )


def _switches(owner: type) -> list[str]:
    """The settings that are on or off: the option --no-NAME turns one off."""
    return [name for name, kind in get_type_hints(owner).items() if kind is bool]
