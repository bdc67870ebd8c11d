"""Alternating: two answers in turn; the first input alone says which comes first (Lemma 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rda.settings import Goal, Limits, Recipe
from rda.tasks.registry import register
from rda.tasks.task import Batch, Preset, Task

if TYPE_CHECKING:
    from torch import Generator


@register
@dataclass(frozen=True)
class Alternating(Task):
    """Give two answers in turn; the first input says with which one to begin."""

    name = "alternating"
    title = "Alternating"
    reference = "section 4, Lemma 1"
    goal = Goal("accuracy", ">=", 1.0)
    minima: ClassVar = {"length": 2}
    input_size = 1
    output_size = 2
    reads_every_step = True
    chance = 0.5

    length: int = 100
    """Steps in a sequence."""

    @classmethod
    def full(cls) -> Preset:
        return Preset(cls(), limits=Limits(steps=5000))

    @classmethod
    def small(cls) -> Preset:
        return Preset(cls(length=20), Recipe(hidden_size=32, batch_size=32), Limits(steps=1000))

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        """Input 1 or -1 at the first step, 0 after it; the answers go on in turn from there."""
        import torch

        device = generator.device
        first = torch.randint(2, (batch_size,), generator=generator, device=device)
        input = torch.zeros(self.length, batch_size, 1, device=device)
        input[0, :, 0] = 2.0 * first - 1
        steps = torch.arange(self.length, device=device).unsqueeze(1)
        return Batch(input, (steps + first) % 2)
