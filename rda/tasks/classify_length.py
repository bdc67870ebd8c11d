"""Classify length: was the sequence longer than half of the longest?"""

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
class ClassifyLength(Task):
    """Tell whether a sequence is longer than half of the longest possible one."""

    name = "classify-length"
    title = "Classify length"
    reference = "section 6.3, Table 2"
    goal = Goal("accuracy", ">=", 1.0)
    minima: ClassVar = {"longest": 2}
    input_size = 1
    output_size = 1

    longest: int = 1000
    """Lengths are uniform between 1 and this."""

    @classmethod
    def full(cls) -> Preset:
        # The paper does not say where a learned state starts. 1.7 is chosen: it fits Table 2.
        recipe = Recipe(learn_initial_state=True, initial_state_deviation=1.7)
        return Preset(cls(), recipe)

    @classmethod
    def small(cls) -> Preset:
        recipe = Recipe(hidden_size=32, batch_size=64, learn_initial_state=True)
        return Preset(cls(longest=40), recipe)

    @property
    def chance(self) -> float:
        return (self.longest - self.longest // 2) / self.longest

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        """One feature, uniform in [0, 1), at every step of a sequence; zeros after its end."""
        import torch

        device = generator.device
        lengths = torch.randint(
            1, self.longest + 1, (batch_size,), generator=generator, device=device
        )
        values = torch.rand((self.longest, batch_size), generator=generator, device=device)
        steps = torch.arange(self.longest, device=device).unsqueeze(1)
        values = torch.where(steps < lengths, values, 0.0)
        return Batch(values.unsqueeze(-1), (lengths > self.longest // 2).float(), lengths)

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        from torch.nn import functional as F

        return F.binary_cross_entropy_with_logits(prediction.squeeze(-1), target, reduction="none")

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return ((prediction.squeeze(-1) > 0) == (target > 0)).float().mean()
