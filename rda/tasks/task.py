"""What the training loop asks of a task, and the losses and metrics that tasks share."""

import math
from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from rda.tasks.settings import TaskSettings

Part = Literal["validation", "test"]


class Batch(NamedTuple):
    """Sequences side by side, time first.

    `input` is (time, batch, features), or (time, batch) of symbols. `target` is (time, batch)
    or (batch). `lengths` (batch) tells where each sequence ends; None: at the last step.
    """

    input: Tensor
    target: Tensor
    lengths: Tensor | None = None


class Task:
    """Batches, loss and metric. Everything random comes from the generator passed in."""

    input_size: int
    """Features of a step, or how many symbols there are."""
    output_size: int
    chance: float
    """The metric of a model that has learned nothing but how often each answer occurs."""
    symbolic: ClassVar[bool] = False
    """Inputs are symbols, not features."""
    embedding: int = 0
    """Dimensions in which a symbol is embedded; 0: as many as there are symbols, one hot."""
    reads_every_step: ClassVar[bool] = False
    """Answers at every step, not at the last alone."""
    carries_state: ClassVar[bool] = False
    """Each batch goes on where the last one ended."""

    def __init__(self, settings: TaskSettings, device: torch.device) -> None:
        self.device = device
        self.metric = settings.metric

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        """The next training batch, on the task's device."""
        raise NotImplementedError

    def evaluation(self, part: Part, batch_size: int) -> Iterator[Batch]:
        """A fixed set of batches, the same every time; each row of a carried state in one place.

        A task that draws its sequences has no parts: ten fresh batches stand for either.
        """
        generator = torch.Generator(self.device).manual_seed({"validation": 1, "test": 2}[part])
        for _ in range(10):
            yield self.batch(generator, batch_size)

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss of each answer."""
        raise NotImplementedError

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        """The metric of a batch, from its answers and its mean loss."""
        raise NotImplementedError

    def position(self) -> dict[str, Tensor]:
        """Where in its data the task stands; empty where batches are drawn."""
        return {}

    def move_to(self, position: dict[str, Tensor]) -> None:
        """Go on from a `position`."""

    def start_of_stream(self) -> bool:
        """Whether the next batch begins anew, so that no state is carried into it."""
        return not self.carries_state


class Classification(Task):
    """Answers are classes: cross-entropy and accuracy."""

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        flat = F.cross_entropy(prediction.flatten(0, -2), target.flatten(), reduction="none")
        return flat.view(target.shape)

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return (prediction.argmax(-1) == target).float().mean()


def bits(loss: Tensor) -> Tensor:
    """Nats as bits."""
    return loss / math.log(2.0)
