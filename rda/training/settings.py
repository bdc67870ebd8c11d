"""What can be set about a run, with section 6.1's values as defaults; read without torch."""

from dataclasses import dataclass, field, replace
from typing import Literal

from rda.labels import UNIT_LABELS
from rda.names import unknown_name
from rda.tasks.settings import (
    MNIST,
    Addition,
    ClassifyLength,
    Copy,
    MultiCopy,
    PermutedMNIST,
    TaskSettings,
    Wikipedia,
    check_at_least,
)


@dataclass(frozen=True)
class Recipe:
    """How a unit is trained. Whatever is changed here makes another run."""

    hidden_size: int = 250
    """Recurrent units."""
    batch_size: int = 100
    """Sequences in a batch."""
    learning_rate: float = 0.001
    """Adam's."""
    clip: float = 1.0
    """Gradients are clipped between minus this and this; 0 for not at all."""
    reduction: Literal["mean", "sum"] = "mean"
    """What is differentiated: the mean of the losses, or their sum over batch and time."""
    learn_initial_state: bool = False
    """Learn the state that a sequence starts from."""
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    """Of the matrix products; weights and states are float32 in all."""
    evaluate_every: int = 0
    """Steps between evaluations on the validation part; 0 for none."""
    seed: int = 0
    """Of the weights and of the batches."""

    def __post_init__(self) -> None:
        for name in ("hidden_size", "batch_size"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("clip", "evaluate_every", "seed"):
            check_at_least(name, getattr(self, name), 0)
        if not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate should be above 0, got {self.learning_rate}")


@dataclass(frozen=True)
class Limits:
    """When a run stops. May be changed between one start and the next."""

    steps: int = 10_000
    """At most so many steps."""
    minutes: float = 0.0
    """At most so many minutes of this start; 0 for no limit."""
    stop_at: Literal["goal", "trailing", "never"] = "goal"
    """Stop when a single batch reaches the task's goal, when the mean of the last 100 does,
    or at a limit alone."""

    def __post_init__(self) -> None:
        check_at_least("steps", self.steps, 1)
        check_at_least("minutes", self.minutes, 0)


@dataclass(frozen=True)
class RunSettings:
    """All that `settings.toml` of a run holds."""

    task: TaskSettings
    unit: str
    recipe: Recipe = field(default_factory=Recipe)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.unit not in UNIT_LABELS:
            raise ValueError(unknown_name("unit", self.unit, UNIT_LABELS))
        if isinstance(self.task, Wikipedia):
            if self.recipe.learn_initial_state:
                raise ValueError("learn_initial_state does not go with a carried state")
            streams = self.task.characters * 9 // 20
            if self.recipe.batch_size > streams:
                raise ValueError(
                    f"batch_size should be {streams} or less for {self.task.characters} "
                    f"characters, got {self.recipe.batch_size}"
                )


def paper_settings(task: str, unit: str) -> RunSettings:
    """The paper's own sizes for one of its tasks."""
    return replace(_PAPER[task], unit=unit)


def small_settings(task: str, unit: str) -> RunSettings:
    """The small twin of one of the paper's tasks, for a CPU."""
    return replace(_SMALL[task], unit=unit)


def _table(*rows: RunSettings) -> dict[str, RunSettings]:
    return {row.task.name: row for row in rows}


_ANY = UNIT_LABELS[0]
_PAPER = _table(
    RunSettings(Addition(), _ANY),
    RunSettings(ClassifyLength(), _ANY, Recipe(learn_initial_state=True)),
    RunSettings(Copy(), _ANY, limits=Limits(steps=20_000)),
    RunSettings(MultiCopy(), _ANY),
    RunSettings(MNIST(), _ANY, Recipe(evaluate_every=500), Limits(steps=45_000)),
    RunSettings(PermutedMNIST(), _ANY, Recipe(evaluate_every=500), Limits(steps=45_000)),
    RunSettings(
        Wikipedia(),
        _ANY,
        Recipe(hidden_size=1800, batch_size=128, evaluate_every=1000),
        Limits(steps=28_000),
    ),
)
_SMALL = _table(
    RunSettings(Addition(length=30), _ANY, Recipe(hidden_size=64, batch_size=64)),
    RunSettings(
        ClassifyLength(longest=40),
        _ANY,
        Recipe(hidden_size=32, batch_size=64, learn_initial_state=True),
    ),
    RunSettings(Copy(symbols=3, alphabet=4, delay=20), _ANY, Recipe(hidden_size=64, batch_size=64)),
    RunSettings(
        MultiCopy(copies=20, symbols=4, alphabet=4),
        _ANY,
        Recipe(hidden_size=64, batch_size=64),
        Limits(steps=2000),
    ),
    RunSettings(
        MNIST(pool=4, images=6000),
        _ANY,
        Recipe(hidden_size=64, evaluate_every=100),
        Limits(steps=1000),
    ),
    RunSettings(
        PermutedMNIST(pool=4, images=6000),
        _ANY,
        Recipe(hidden_size=64, evaluate_every=100),
        Limits(steps=1000),
    ),
    RunSettings(
        Wikipedia(segment=50, embedding=16, characters=1_000_000, evaluation_streams=20),
        _ANY,
        Recipe(hidden_size=64, batch_size=32, evaluate_every=100),
        Limits(steps=500),
    ),
)
