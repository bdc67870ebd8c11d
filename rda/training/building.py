"""From settings to task, model and optimiser as they are before the first step."""

import hashlib
from collections.abc import Mapping

import torch

from rda.tasks.catalogue import build_task
from rda.training.model import SequenceModel
from rda.training.settings import RunSettings
from rda.training.stepper import Stepper

ROWS_HELD = 64
"""Steps whose values may wait on a GPU before they are fetched."""


def build_stepper(
    settings: RunSettings,
    device: torch.device,
    engine: str = "auto",
    files: Mapping[str, bytes] | None = None,
) -> Stepper:
    """Task, model and optimiser as they are before the first step."""
    recipe = settings.recipe
    task = build_task(settings.task, device, files)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_seed(recipe.seed, "weights"))
        model = SequenceModel(
            task,
            settings.unit,
            recipe.hidden_size,
            learn_initial_state=recipe.learn_initial_state,
            engine=engine,
        ).to(device)
    generator = torch.Generator(device).manual_seed(_seed(recipe.seed, "batches"))
    return Stepper(task, model, recipe, generator, 1 if device.type == "cpu" else ROWS_HELD)


def _seed(seed: int, purpose: str) -> int:
    """Seeds apart for the weights and the batches, which would else be the same numbers."""
    return int.from_bytes(hashlib.sha256(f"{purpose} {seed}".encode()).digest()[:7], "big")
