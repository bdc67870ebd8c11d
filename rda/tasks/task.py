"""What a task is: settings, sizes, data, batches, loss, metric and goal in one class.

A task is a frozen dataclass. Its fields are what a person can set, its class attributes describe
it, its methods make batches and judge answers. Importing a task must not import torch, so that
`rda --help` answers at once: import torch inside the methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from rda.settings import Goal, Limits, Recipe, check_at_least, check_types

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor

Part = Literal["validation", "test"]


class Batch(NamedTuple):
    """Sequences side by side, time first."""

    input: Tensor
    """(time, batch, features), or (time, batch) of symbols."""
    target: Tensor
    """(batch) if there is one answer at the end, (time, batch) if there is one at every step."""
    lengths: Tensor | None = None
    """(batch): how long each sequence is, for tasks with one answer at the end. None means that
    all end at the last step."""


@dataclass(frozen=True)
class Preset:
    """A size of a task, with the recipe and the limits that go with it."""

    task: Task
    recipe: Recipe = field(default_factory=Recipe)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Task:
    """Base class of all tasks. By default a task is a classification: cross-entropy and accuracy.

    A task that draws its sequences defines `input_size`, `output_size` and `batch`. A task that
    reads data defines `open` instead, which returns a `Source` of its own.
    """

    name: ClassVar[str]
    """The name on the command line: lower-case letters, digits and dashes."""
    title: ClassVar[str]
    """The name in tables and on pages."""
    reference: ClassVar[str] = ""
    """Where the paper describes the task; empty for a task that is not the paper's."""
    metric: ClassVar[str] = "accuracy"
    """The name of what `score` returns; any other than accuracy is better when smaller."""
    goal: ClassVar[Goal | None] = None
    """What ends a run; None where a run ends at its limit of steps."""
    dataset: ClassVar[str | None] = None
    """The name of the data set that `open` reads, one of `rda.data.catalogue.DATASETS`."""
    minima: ClassVar[Mapping[str, int]] = {}
    """The smallest value of each setting that has one."""
    added_later: ClassVar[tuple[str, ...]] = ()
    """Settings that runs were named without. With their default values they are left out of a
    run's name, so that a command still finds the run it started before."""
    earlier: ClassVar[Mapping[str, Any]] = {}
    """What settings of `added_later` stood for in runs without them, where that is not their
    default value."""
    symbolic: ClassVar[bool] = False
    """Whether inputs are symbols instead of features."""
    reads_every_step: ClassVar[bool] = False
    """Whether there is an answer at every step instead of the last one only."""
    carries_state: ClassVar[bool] = False
    """Whether each batch continues the sequences of the batch before (truncated BPTT)."""

    @property
    def input_size(self) -> int:
        """Features of a step, or the number of different symbols."""
        raise NotImplementedError(f"{type(self).__name__} should define input_size")

    @property
    def output_size(self) -> int:
        """Size of a prediction: the number of classes, or 1 for a single number."""
        raise NotImplementedError(f"{type(self).__name__} should define output_size")

    @property
    def embedding_size(self) -> int:
        """Dimensions in which a symbol is embedded; 0 means one-hot."""
        return 0

    @property
    def chance(self) -> float | None:
        """The metric of a model that knows only how often each answer occurs, where known."""
        return None

    def __post_init__(self) -> None:
        check_types(self)
        for name, minimum in self.minima.items():
            check_at_least(name, getattr(self, name), minimum)

    @classmethod
    def full(cls) -> Preset:
        """The task at full size, which for the paper's tasks is the paper's."""
        return Preset(cls())

    @classmethod
    def small(cls) -> Preset:
        """A small twin that a CPU trains in a minute or two."""
        return cls.full()

    def suited(self, given: Mapping[str, Any]) -> Preset | None:
        """The recipe and the limits that suit these settings; None for those of `full`.

        `given` has the settings that a person chose, which the result should go with.
        """
        return None

    @property
    def chosen_by(self) -> str:
        """What the best weights are chosen by on the validation part: the metric, or the loss."""
        return self.metric

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller metric is a better one."""
        return self.metric != "accuracy"

    def check(self, recipe: Recipe) -> None:
        """Raise a ValueError where the recipe does not fit the task."""
        if self.carries_state and recipe.learn_initial_state:
            raise ValueError(f"learn_initial_state does not go with {self.name}: it carries states")
        if recipe.restart_probability and not self.carries_state:
            raise ValueError(
                f"restart_probability does not go with {self.name}: every sequence starts anew"
            )

    def told(self) -> list[str]:
        """What a person should know of the data before training on it, in lines."""
        return []

    def open(self, device: torch.device, files: Mapping[str, bytes] | None = None) -> Source:
        """Where the batches come from; `files` holds the contents of the data set by name."""
        return Source(self, device)

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        """Draw a batch on the generator's device; all randomness comes from the generator."""
        raise NotImplementedError(f"{type(self).__name__} should define batch, or open")

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss of each answer, in the shape of the target."""
        from torch.nn import functional as F

        flat = F.cross_entropy(prediction.flatten(0, -2), target.flatten(), reduction="none")
        return flat.view(target.shape)

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        """The metric of a batch, from its answers and its mean loss."""
        return (prediction.argmax(-1) == target).float().mean()


class Source:
    """The batches of a task on one device. This one asks the task to draw them."""

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task = task
        self.device = device

    @property
    def input_size(self) -> int:
        """Features of a step, or the number of different symbols."""
        return self.task.input_size

    @property
    def output_size(self) -> int:
        """Size of a prediction."""
        return self.task.output_size

    @property
    def chance(self) -> float | None:
        """The metric of a model that knows only how often each answer occurs, where known."""
        return self.task.chance

    @property
    def metric(self) -> str:
        """The name of what `score` returns, which may depend on the data."""
        return self.task.metric

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        """The next training batch."""
        return self.task.batch(generator, batch_size)

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss of each answer, in the shape of the target."""
        return self.task.losses(prediction, target)

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        """The metric of a batch, from its answers and its mean loss."""
        return self.task.score(prediction, target, loss)

    def answers(self, target: Tensor) -> Tensor | int:
        """How many answers of a batch there are; fewer than places where sequences are padded."""
        return target.numel()

    def evaluation(self, part: Part, batch_size: int) -> Iterator[Batch]:
        """The batches of the validation or the test part, the same every time.

        A task that draws its sequences has no such parts: ten batches from a fixed seed are used
        instead.
        """
        import torch

        generator = torch.Generator(self.device).manual_seed({"validation": 1, "test": 2}[part])
        for _ in range(10):
            yield self.batch(generator, batch_size)

    def check(self, recipe: Recipe) -> None:
        """Raise a TaskError where the recipe does not fit the data."""

    def facts(self) -> dict[str, Any]:
        """What a model of this data needs to be used, and what tells the data from others.

        Plain values, saved with the weights. A run goes on only with data of the same facts. The
        size of the data as "bytes" is told where it has changed.
        """
        return {}

    def position(self) -> dict[str, Tensor]:
        """Where in the data training stands, for a checkpoint; empty where batches are drawn."""
        return {}

    def move_to(self, position: Mapping[str, Tensor]) -> None:
        """Continue from a `position`."""

    def start_of_stream(self) -> bool:
        """Whether the next batch starts new sequences, so that no state is carried into it."""
        return not self.task.carries_state


def bits(loss: Tensor) -> Tensor:
    """A loss in nats as bits."""
    return loss / math.log(2.0)
