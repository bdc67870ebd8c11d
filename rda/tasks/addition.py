"""Addition: the sum of two marked numbers, asked for at the end."""

import torch
from torch import Generator, Tensor

from rda.tasks.settings import Addition
from rda.tasks.task import Batch, Task


class AdditionTask(Task):
    """Inputs (value, marker): values uniform in [0, 1), two distinct markers anywhere."""

    input_size = 2
    output_size = 1
    chance = 2 / 12
    """Mean squared error of always saying 1: the variance of two uniform numbers."""

    def __init__(self, settings: Addition, device: torch.device) -> None:
        super().__init__(settings, device)
        self.length = settings.length

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        shape = (self.length, batch_size)
        values = torch.rand(shape, generator=generator, device=self.device)
        first = self._positions(self.length, generator, batch_size)
        second = self._positions(self.length - 1, generator, batch_size)
        second = second + (second >= first)  # skips the first, so every pair is equally likely
        marked = torch.stack((first, second))
        markers = torch.zeros_like(values).scatter_(0, marked, 1.0)
        return Batch(torch.stack((values, markers), -1), values.gather(0, marked).sum(0))

    def _positions(self, below: int, generator: Generator, batch_size: int) -> Tensor:
        return torch.randint(below, (batch_size,), generator=generator, device=self.device)

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        return (prediction.squeeze(-1) - target).square()

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return loss
