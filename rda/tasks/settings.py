"""What can be set about each task, with the paper's sizes as defaults; read without torch."""

import struct
from dataclasses import dataclass
from typing import ClassVar

LARGEST = 2**31 - 1
"""Of all whole numbers that can be set: no size is beyond it, and every library takes it."""


@dataclass(frozen=True)
class Goal:
    """What a training batch must reach: its loss below, or its accuracy above, a threshold."""

    column: str
    relation: str
    threshold: float

    def reached(self, value: float) -> bool:
        """Whether one value is past the threshold, both as float32: an accuracy of 99 in 100
        is not above 0.99 because of how the two are rounded."""
        value, threshold = _as_float32(value), _as_float32(self.threshold)
        if self.relation == "<":
            return value < threshold
        if self.relation == ">":
            return value > threshold
        return value >= threshold

    def __str__(self) -> str:
        return f"{self.column} {self.relation} {self.threshold:g}"


def _as_float32(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


@dataclass(frozen=True)
class TaskSettings:
    """What every task has."""

    name: ClassVar[str]
    title: ClassVar[str]
    metric: ClassVar[str] = "accuracy"
    goal: ClassVar[Goal | None] = None
    dataset: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for field, minimum in self._minima().items():
            check_at_least(field, getattr(self, field), minimum)

    def _minima(self) -> dict[str, int]:
        return {}

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller metric is a better one."""
        return self.metric != "accuracy"


def check_at_least(name: str, value: float, minimum: float) -> None:
    """Raise the error a person can act on."""
    if not value >= minimum:
        raise ValueError(f"{name} should be {minimum} or more, got {value}")
    if isinstance(value, int) and value > LARGEST:
        raise ValueError(f"{name} should be {LARGEST} or less, got {value}")


@dataclass(frozen=True)
class Addition(TaskSettings):
    """Add the two marked numbers of a long sequence of numbers (section 6.3, Table 1)."""

    name = "addition"
    title = "Addition"
    metric = "loss"
    goal = Goal("loss", "<", 0.001)

    length: int = 1000
    """Steps in a sequence."""

    def _minima(self) -> dict[str, int]:
        return {"length": 2}


@dataclass(frozen=True)
class ClassifyLength(TaskSettings):
    """Tell whether a sequence is longer than half of the longest (section 6.3, Table 2)."""

    name = "classify-length"
    title = "Classify length"
    goal = Goal("accuracy", ">=", 1.0)

    longest: int = 1000
    """Lengths are uniform in 1 to this."""

    def _minima(self) -> dict[str, int]:
        return {"longest": 2}


@dataclass(frozen=True)
class Copy(TaskSettings):
    """Remember the first symbols and say them when asked (section 6.3, Table 5)."""

    name = "copy"
    title = "Copy"
    goal = Goal("accuracy", ">", 0.999)

    symbols: int = 10
    """Symbols to remember."""
    alphabet: int = 7
    """Different symbols, without blank and recall."""
    delay: int = 1000
    """Steps over which the recall may fall; a sequence has this and twice the symbols."""

    def _minima(self) -> dict[str, int]:
        return {"symbols": 1, "alphabet": 1, "delay": 1}


@dataclass(frozen=True)
class MultiCopy(TaskSettings):
    """Copy again and again, in one sequence (section 6.4, Table 6)."""

    name = "multicopy"
    title = "Multiple sequence copy"
    goal = Goal("accuracy", ">", 0.99)

    copies: int = 50
    """Copying tasks in a sequence."""
    symbols: int = 9
    """Symbols to remember in each; a copy takes twice this and 2 steps."""
    alphabet: int = 7
    """Different symbols, without blank and recall."""

    def _minima(self) -> dict[str, int]:
        return {"copies": 1, "symbols": 1, "alphabet": 1}


@dataclass(frozen=True)
class MNIST(TaskSettings):
    """Classify a digit from its pixels, one at a time (section 6.3, Table 3)."""

    name = "mnist"
    title = "MNIST"
    dataset = "mnist"

    pool: int = 1
    """Average squares of this many pixels a side first; must divide 28."""
    images: int = 60000
    """Use the first so many of the 60,000; the last twelfth of them is for validation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if 28 % self.pool:
            raise ValueError(f"pool should divide 28, got {self.pool}")
        if self.images > 60000:
            raise ValueError(f"images should be 60000 or fewer, got {self.images}")

    def _minima(self) -> dict[str, int]:
        return {"pool": 1, "images": 24}


@dataclass(frozen=True)
class PermutedMNIST(MNIST):
    """MNIST with the pixels in one fixed random order (section 6.3, Table 4)."""

    name = "mnist-permuted"
    title = "MNIST permuted"

    permutation_seed: int = 1705
    """Seed of the order of the pixels."""

    def _minima(self) -> dict[str, int]:
        return {**super()._minima(), "permutation_seed": 0}


@dataclass(frozen=True)
class Wikipedia(TaskSettings):
    """Predict the next character of Wikipedia, enwik8 (section 6.5, Table 7)."""

    name = "wikipedia"
    title = "Hutter Prize Wikipedia"
    metric = "bits"
    dataset = "enwik8"

    segment: int = 250
    """Steps between truncations of the backward pass; the state is carried over them."""
    embedding: int = 64
    """Dimensions in which a character is embedded."""
    characters: int = 100_000_000
    """Use the first so many; 90% train, 5% validation, 5% test."""
    evaluation_streams: int = 100
    """Pieces into which a part is cut to be evaluated side by side."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.characters > 100_000_000:
            raise ValueError(f"characters should be 100000000 or fewer, got {self.characters}")
        if self.characters // 20 < 2 * self.evaluation_streams:
            raise ValueError(
                f"evaluation_streams should be {self.characters // 40} or fewer for "
                f"{self.characters} characters, got {self.evaluation_streams}"
            )

    def _minima(self) -> dict[str, int]:
        return {"segment": 1, "embedding": 1, "characters": 1000, "evaluation_streams": 1}


TASKS: dict[str, type[TaskSettings]] = {
    settings.name: settings
    for settings in (Addition, ClassifyLength, Copy, MultiCopy, MNIST, PermutedMNIST, Wikipedia)
}
