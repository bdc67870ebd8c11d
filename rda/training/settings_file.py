"""Settings as TOML and back, with errors that name the key."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import tomli_w

from rda.names import unknown_name
from rda.settings import Limits, Recipe, typed
from rda.tasks import Task
from rda.training.settings import (
    ADDED_LATER,
    RunSettings,
    full_settings,
    to_table,
    with_defaults,
)

Section = TypeVar("Section", Task, Recipe, Limits)

LARGEST_FILE = 16384
"""Settings take about 1 kB. A file of dotted keys costs the TOML reader the square of its size."""


class SettingsError(ValueError):
    """A settings file that cannot be used; the message says why."""


def to_toml(settings: RunSettings) -> str:
    """The settings as `settings.toml` holds them."""
    return tomli_w.dumps(to_table(settings))


def read_settings(path: Path) -> RunSettings:
    """Settings from a file; what it leaves out is as in `from_table`."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise SettingsError(f"{path} is too large for settings: over {LARGEST_FILE} bytes")
        table = tomllib.loads(content.decode())
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise SettingsError(f"{path} is not a TOML file: {reason}") from error
    try:
        return from_table(table)
    except (TypeError, ValueError, OverflowError) as error:
        raise SettingsError(f"{path}: {error}") from error


def from_table(table: dict[str, Any]) -> RunSettings:
    """The inverse of `to_table`.

    What a table leaves out has the value of the task at full size. The exception are settings that
    were added later, in a table that holds all others, as a run writes it: they did not exist when
    it was written, and have their defaults.
    """
    _refuse_unknown("setting", table, ("unit", "task", "recipe", "limits"))
    task_table = dict(_table(table, "task"))
    name = task_table.pop("name", None)
    if not isinstance(name, str):
        raise TypeError(f"task.name should name a task, got {name!r}")
    unit = table.get("unit")
    if not isinstance(unit, str):
        raise TypeError("unit should name a unit" + ("" if unit is None else f", got {unit!r}"))
    default, recipe = full_settings(name, unit), _table(table, "recipe")
    later = (*ADDED_LATER, "not_finite")
    if all(field.name in recipe or field.name in later for field in fields(Recipe)):
        task_table = with_defaults(default.task, task_table)
        recipe = with_defaults(default.recipe, recipe)
    return RunSettings(
        task=_section("task", default.task, task_table),
        unit=unit,
        recipe=_section("recipe", default.recipe, recipe),
        limits=_section("limits", default.limits, _table(table, "limits")),
    )


def _table(table: dict[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise TypeError(f"{key} should be a table, got {value!r}")
    return value


def _section(where: str, default: Section, given: dict[str, Any]) -> Section:
    names = [field.name for field in fields(default)]
    _refuse_unknown(f"{where} setting", given, names)
    hints = get_type_hints(type(default))
    values = {name: getattr(default, name) for name in names}
    for name, value in given.items():
        values[name] = typed(f"{where}.{name}", value, hints[name])
    return type(default)(**values)


def _refuse_unknown(kind: str, given: dict[str, Any], valid: Any) -> None:
    for key in given:
        if key not in valid:
            raise ValueError(unknown_name(kind, key, valid))
