"""Addition: the sum of two marked numbers, asked for at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rda.settings import Goal, Recipe
from rda.tasks.registry import register
from rda.tasks.task import Batch, Preset, Task

if TYPE_CHECKING:
    from torch import Generator, Tensor


@register
@dataclass(frozen=True)
class Addition(Task):
    """Add the two marked numbers of a long sequence of numbers."""

    name = "addition"
    title = "Addition"
    reference = "section 6.3, Table 1"
    metric = "loss"
    goal = Goal("loss", "<", 0.001)
    minima: ClassVar = {"length": 2}
    input_size = 2
    output_size = 1
    chance = 2 / 12  # always answering 1 leaves the variance of two uniform numbers

    length: int = 1000
    """Steps in a sequence."""

    @classmethod
    def small(cls) -> Preset:
        return Preset(cls(length=30), Recipe(hidden_size=64, batch_size=64))

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        """Inputs (value, marker): values uniform in [0, 1), markers at two different steps."""
        import torch

        def positions(below: int) -> Tensor:
            return torch.randint(below, (batch_size,), generator=generator, device=generator.device)

        shape = (self.length, batch_size)
        values = torch.rand(shape, generator=generator, device=generator.device)
        first = positions(self.length)
        second = positions(self.length - 1)
        second = second + (second >= first)  # skips the first, so every pair is equally likely
        marked = torch.stack((first, second))
        markers = torch.zeros_like(values).scatter_(0, marked, 1.0)
        return Batch(torch.stack((values, markers), -1), values.gather(0, marked).sum(0))

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        return (prediction.squeeze(-1) - target).square()

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return loss
