"""All that defines one run: the task, the unit, the recipe and the limits. Needs no torch."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from rda.labels import UNIT_LABELS
from rda.names import unknown_name
from rda.settings import Limits, Recipe, check_given
from rda.tasks import Preset, Task, find_task


@dataclass(frozen=True)
class RunSettings:
    """What the `settings.toml` of a run holds."""

    task: Task
    unit: str
    recipe: Recipe = field(default_factory=Recipe)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.unit not in UNIT_LABELS:
            raise ValueError(unknown_name("unit", self.unit, UNIT_LABELS))
        if self.recipe.gru_gate_bias and self.unit != "GRU":
            raise ValueError(f"gru_gate_bias goes with the unit GRU alone, got {self.unit}")
        self.task.check(self.recipe)


def full_settings(task: str, unit: str) -> RunSettings:
    """A task at full size, which for the paper's tasks is the paper's."""
    return _with_unit(find_task(task).full(), unit)


def small_settings(task: str, unit: str) -> RunSettings:
    """The small twin of a task, for a CPU."""
    return _with_unit(find_task(task).small(), unit)


def _with_unit(preset: Preset, unit: str) -> RunSettings:
    return RunSettings(preset.task, unit, preset.recipe, preset.limits)


def with_changes(settings: RunSettings, changes: dict[str, Any]) -> RunSettings:
    """The settings with some of them changed; each goes to the section that has this field."""
    changed: dict[str, dict[str, Any]] = {"task": {}, "recipe": {}, "limits": {}}
    owners = {
        part.name: section for section in changed for part in fields(getattr(settings, section))
    }
    for name, value in changes.items():
        if name not in owners:
            raise ValueError(unknown_name("setting", name, owners))
        changed[owners[name]][name] = value
    sections = {name: replace(getattr(settings, name), **new) for name, new in changed.items()}
    return replace(settings, **sections)


def settings_for(task: str, unit: str, small: bool, changes: dict[str, Any]) -> RunSettings:
    """A task at its full or small size with some settings changed.

    Where the size is not the small one, a task may have a recipe that suits its own settings, such
    as the length of a text.
    """
    start = (small_settings if small else full_settings)(task, unit)
    of_task = {part.name for part in fields(start.task)} & changes.keys()
    start = with_changes(start, {name: changes[name] for name in of_task})
    preset = None if small else suited(start.task, changes)
    if preset is not None:
        start = _with_unit(preset, unit)
    return with_changes(start, changes)


def suited(task: Task, changes: Mapping[str, Any]) -> Preset | None:
    """What suits the task's own settings. It computes with the changes: their types come first."""
    for owner in (type(task), Recipe, Limits):
        check_given(owner, changes)
    return task.suited(changes)


def identity(settings: RunSettings) -> dict[str, Any]:
    """What makes a run the run it is, as plain values: everything but when it ends.

    Left out are the limits, and whether a step that is not finite ends it: a run can be continued
    with others, and up to there it is the same run.
    """
    return without_its_end(to_table(settings))


def without_its_end(table: dict[str, Any]) -> dict[str, Any]:
    """Settings as nested plain values, without those that say when a run ends."""
    kept = {name: section for name, section in table.items() if name != "limits"}
    recipe = {name: value for name, value in table["recipe"].items() if name != "not_finite"}
    return {**kept, "recipe": recipe}


def to_table(settings: RunSettings) -> dict[str, Any]:
    """The settings as nested plain values."""
    return {
        "unit": settings.unit,
        "task": {"name": settings.task.name, **asdict(settings.task)},
        "recipe": asdict(settings.recipe),
        "limits": asdict(settings.limits),
    }


ADDED_LATER = (
    "schedule", "warmup_steps", "schedule_steps", "final_learning_rate", "clip_norm",
    "clip_relative", "adam_epsilon", "gru_gate_bias", "initial_state_deviation", "adam_beta1",
    "adam_beta2", "weight_decay", "dropout", "weight_dropout",
    "restart_probability",
)  # fmt: skip
"""Settings of the recipe that did not exist when runs were named first. Where they have their
default values they are left out of a run's name, so that a command still finds the run it started
before. A task says so of its own settings in `added_later`."""


def usual_size(settings: RunSettings) -> str | None:
    """ "full" or "small" where the settings are the usual ones of that size, whatever the seed and
    the limits; otherwise None."""
    for size, usual in (("full", full_settings), ("small", small_settings)):
        known = usual(settings.task.name, settings.unit)
        recipe = replace(known.recipe, seed=settings.recipe.seed)
        if settings == replace(known, recipe=recipe, limits=settings.limits):
            return size
    return None


def default_name(settings: RunSettings) -> str:
    """Task, unit and seed; "small" for the small twin, a digest for any other settings."""
    seed = settings.recipe.seed
    stem = f"{settings.task.name}-{settings.unit}"
    size = usual_size(settings)
    if size is not None:
        return f"{stem}{'-small' if size == 'small' else ''}-seed{seed}"
    table = {**identity(settings), "limits": asdict(Limits())}
    for section, names in (("task", settings.task.added_later), ("recipe", ADDED_LATER)):
        defaults = with_defaults(getattr(settings, section), {})
        for name in names:
            if name in defaults and table[section][name] == defaults[name]:
                del table[section][name]
    digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
    return f"{stem}-seed{seed}-{digest[:6]}"


def default_values(section: Any) -> dict[str, Any]:
    """The defaults of a task, a recipe or limits, by name."""
    return {part.name: part.default for part in fields(section) if part.default is not MISSING}


def with_defaults(section: Any, written: Mapping[str, Any]) -> dict[str, Any]:
    """What a run wrote of a section; settings that did not exist then have their defaults, or what
    they stood for."""
    return {**default_values(section), **getattr(section, "earlier", {}), **written}
