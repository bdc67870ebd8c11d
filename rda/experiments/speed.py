"""How long a step takes on this machine: from records of earlier runs, otherwise measured."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from rda.experiments.sharing import GAIN
from rda.settings import Recipe
from rda.training.building import build_stepper
from rda.training.record import Record, read_records, run_folders
from rda.training.settings import RunSettings
from rda.training.status import RecordError

UNTIMED_STEPS = 6
"""The first steps compile kernels and record a CUDA graph."""
SECONDS_TIMED = 0.2


class Speeds:
    """Seconds that a step of a run takes if it has the device for itself."""

    def __init__(
        self,
        device: torch.device,
        folder: Path,
        files: Callable[[RunSettings], Mapping[str, bytes] | None],
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._device = device
        self._files = files
        self._say = say
        self._known: dict[str, float] = {}
        self._recorded: dict[str, list[float]] = {}
        records, _ = read_records(run_folders(folder))
        for record in records:
            self._learn(record)

    def __call__(self, settings: RunSettings) -> float:
        kind = _kind(settings)
        if kind not in self._known:
            found = self._recorded.get(kind)
            self._known[kind] = statistics.median(found) if found else self._measured(settings)
        return self._known[kind]

    def _learn(self, record: Record) -> None:
        try:
            status, starts = record.status, record.environment
        except RecordError:
            return
        here = torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else None
        if status.step < UNTIMED_STEPS or not status.seconds or not starts:
            return
        if any(start.get("gpu") != here for start in starts):
            return
        together = {start.get("runs_at_once") or 1 for start in starts}
        if len(together) > 1:
            return
        (count,) = together
        alone = status.seconds / status.step * (GAIN / count if count > 1 else 1.0)
        self._recorded.setdefault(_kind(record.settings), []).append(alone)

    def _measured(self, settings: RunSettings) -> float:
        self._say(f"measuring a step of {settings.unit} on {settings.task.name}")
        return measure(settings, self._device, self._files(settings))


def measure(
    settings: RunSettings, device: torch.device, files: Mapping[str, bytes] | None = None
) -> float:
    """Seconds of a training step, taken over a moment or one step."""
    stepper = build_stepper(settings, device, files=files)
    for _ in range(UNTIMED_STEPS if device.type == "cuda" else 1):
        stepper.step()
        stepper.fetch()
    start, steps = time.perf_counter(), 0
    while not steps or time.perf_counter() - start < SECONDS_TIMED:
        stepper.step()
        stepper.fetch()
        steps += 1
    return (time.perf_counter() - start) / steps


def _kind(settings: RunSettings) -> str:
    """What the time of a step depends on."""
    recipe = settings.recipe
    sizes = replace(
        Recipe(), hidden_size=recipe.hidden_size, batch_size=recipe.batch_size,
        precision=recipe.precision,
    )  # fmt: skip
    return repr((settings.unit, settings.task, sizes))
