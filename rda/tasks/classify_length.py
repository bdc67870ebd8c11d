"""Classify length: was the sequence longer than half of the longest?"""

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from rda.tasks.settings import ClassifyLength
from rda.tasks.task import Batch, Task


class ClassifyLengthTask(Task):
    """Lengths uniform in 1 to `longest`, one feature uniform in [0, 1) a step, zeros after."""

    input_size = 1
    output_size = 1

    def __init__(self, settings: ClassifyLength, device: torch.device) -> None:
        super().__init__(settings, device)
        self.longest = settings.longest
        self.middle = settings.longest // 2
        self.chance = (self.longest - self.middle) / self.longest

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        lengths = torch.randint(
            1, self.longest + 1, (batch_size,), generator=generator, device=self.device
        )
        values = torch.rand((self.longest, batch_size), generator=generator, device=self.device)
        steps = torch.arange(self.longest, device=self.device).unsqueeze(1)
        values = torch.where(steps < lengths, values, 0.0)
        return Batch(values.unsqueeze(-1), (lengths > self.middle).float(), lengths)

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(prediction.squeeze(-1), target, reduction="none")

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return ((prediction.squeeze(-1) > 0) == (target > 0)).float().mean()
