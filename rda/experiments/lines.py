"""The command line that trains a run."""

from dataclasses import asdict
from typing import Any

from rda.training.settings import RunSettings, full_settings, small_settings


def train_line(settings: RunSettings) -> list[str]:
    """`train TASK UNIT` with an option for each setting that is unlike the full or small size."""
    full = _options(settings, full_settings(settings.task.name, settings.unit))
    small = _options(settings, small_settings(settings.task.name, settings.unit))
    options = full if len(full) <= len(small) else ["--small", *small]
    return ["train", settings.task.name, settings.unit, *options]


def _options(settings: RunSettings, usual: RunSettings) -> list[str]:
    options = []
    for section in ("task", "recipe", "limits"):
        before = asdict(getattr(usual, section))
        for name, value in asdict(getattr(settings, section)).items():
            if value != before[name]:
                options += _option(name.replace("_", "-"), value)
    return options


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]
