"""How a unit is trained, as plain data with section 6.1's values as defaults. Needs no torch."""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

LARGEST = 2**31 - 1
"""No whole number in the settings may be larger: every library takes numbers up to this one."""
LARGEST_FLOAT = 2**1023
"""Whole numbers below this can be turned into floats."""

SCALED_ERROR = "scaled_error"
"""The metric of a forecast of several columns, whose units may differ: the mean absolute error,
that of each column divided by its scale (`Understanding.scales`)."""


def check_at_least(name: str, value: float, minimum: float) -> None:
    """Raise a ValueError that names the setting and the smallest value it may have."""
    if not value >= minimum:
        raise ValueError(f"{name} should be {minimum} or more, got {value}")
    if isinstance(value, int) and value > LARGEST:
        raise ValueError(f"{name} should be {LARGEST} or less, got {value}")


def check_types(settings: Any) -> None:
    """Raise a TypeError or ValueError for a field that does not have its declared type.

    A whole number becomes a float where a float is declared.
    """
    hints = _hints(type(settings))  # type: ignore[arg-type]  # mypy: a type is not hashable
    for field in fields(settings):
        value = typed(field.name, getattr(settings, field.name), hints[field.name])
        object.__setattr__(settings, field.name, value)  # the dataclass is frozen


def check_given(kind: type, given: Mapping[str, Any]) -> None:
    """The same for those values that are given for fields of this dataclass."""
    for field in fields(kind):
        if field.name in given:
            typed(field.name, given[field.name], _hints(kind)[field.name])


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The declared types of a dataclass; looking them up takes longer than checking them."""
    return get_type_hints(kind)


def typed(name: str, value: Any, kind: Any) -> Any:
    """The value, if it has this type or can stand for it; otherwise an error that names it."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError(f"{name} should be one of {', '.join(get_args(kind))}, got {value!r}")
        return value
    if kind is float and type(value) is int:
        if abs(value) >= LARGEST_FLOAT:
            raise ValueError(f"{name} should be of type float, and the number given is too large")
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{name} should be of type {kind.__name__}, got {value!r}")
    return value


@dataclass(frozen=True)
class Goal:
    """A threshold for one training batch: its loss below it, or its accuracy above it."""

    column: str
    relation: Literal["<", ">", ">="]
    threshold: float

    def __post_init__(self) -> None:
        if self.relation not in ("<", ">", ">="):
            raise ValueError(f"relation should be <, > or >=, got {self.relation!r}")

    def reached(self, value: float) -> bool:
        """Whether a value is past the threshold.

        Both are compared as float32, the dtype in which the value was computed: otherwise an
        accuracy of 99 in 100 would be above 0.99 because of its rounding.
        """
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
class Recipe:
    """How a unit is trained. A run with any of these changed is another run."""

    hidden_size: int = 250
    """Hidden size: number of recurrent units."""
    batch_size: int = 100
    """Number of sequences in a batch."""
    learning_rate: float = 0.001
    """Adam's learning rate; with a schedule, the highest rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate goes down after the warm-up, until step schedule_steps."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from near 0 to its full value."""
    schedule_steps: int = 0
    """Step at which a linear or cosine schedule ends; the learning rate stays at its last value
    from there on."""
    final_learning_rate: float = 0.0
    """Learning rate at which a linear or cosine schedule ends."""
    clip: float = 1.0
    """Clip every element of the gradients to [-clip, clip]; 0 turns it off."""
    clip_norm: float = 0.0
    """Scale all gradients down together to at most this norm, before clipping by value; 0 turns
    it off."""
    clip_relative: float = 0.0
    """Scale all gradients down together to at most this many times the running mean of their
    norm, before clipping by value; 0 turns it off."""
    not_finite: Literal["fail", "skip"] = "skip"
    """What to do when a loss or a gradient is infinite or NaN: skip the step and go on, or end
    the run as failed. 100 skipped steps among 200 fail too."""
    adam_beta1: float = 0.9
    """How much of the running mean of gradients Adam keeps at each step."""
    adam_beta2: float = 0.999
    """The same for the running mean of squared gradients."""
    adam_epsilon: float = 1e-8
    """Adam's epsilon, added to the root of the running mean of squared gradients."""
    weight_decay: float = 0.0
    """Every step also shrinks the weights of matrices by this much times the learning rate,
    beside the gradients (AdamW); biases are left alone."""
    dropout: float = 0.0
    """Share of the unit's outputs that a training step hides from the readout."""
    weight_dropout: float = 0.0
    """Share of the recurrent weights that a training step leaves out, the same ones for the whole
    batch and all time steps."""
    restart_probability: float = 0.0
    """Where the state is carried on from batch to batch: the probability with which a row starts
    anew at a batch. With 0 a model knows states with a long past only, and may do badly at the
    beginning of a text."""
    gru_gate_bias: float = 0.0
    """Initial bias of the GRU's reset and update gates; TensorFlow 1 starts them at 1."""
    reduction: Literal["mean", "sum"] = "mean"
    """The objective: the mean of the losses, or their sum over batch and time."""
    learn_initial_state: bool = False
    """Learn the state in which a sequence starts, instead of starting from zeros."""
    initial_state_deviation: float = 0.0
    """Draw the first values of a learned initial state from a normal distribution with this
    standard deviation; 0 for zeros."""
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    """Precision of the matrix products; weights and states are float32 in all three."""
    evaluate_every: int = 0
    """Steps between two evaluations on the validation data (ten fixed batches, where a task draws
    its sequences); a run that ends before the first is evaluated at its end; 0 for none."""
    seed: int = 0
    """Seed for weight initialisation and batch order."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("hidden_size", "batch_size"):
            check_at_least(name, getattr(self, name), 1)
        for name in (
            "clip", "clip_norm", "evaluate_every", "seed", "warmup_steps", "schedule_steps",
            "final_learning_rate", "adam_epsilon", "initial_state_deviation", "weight_decay",
        ):  # fmt: skip
            check_at_least(name, getattr(self, name), 0)
        for name in (
            "adam_beta1", "adam_beta2", "dropout", "weight_dropout", "restart_probability",
        ):  # fmt: skip
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name} should be 0 or more and below 1, got {getattr(self, name)}"
                )
        if self.clip_relative and not self.clip_relative > 1:
            raise ValueError(f"clip_relative should be 0 or above 1, got {self.clip_relative}")
        if self.initial_state_deviation and not self.learn_initial_state:
            raise ValueError("initial_state_deviation needs learn_initial_state")
        if not math.isfinite(self.gru_gate_bias):
            raise ValueError(f"gru_gate_bias should be finite, got {self.gru_gate_bias}")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate should be above 0, got {self.learning_rate}")
        self._check_schedule()

    def _check_schedule(self) -> None:
        if self.schedule == "constant":
            for name in ("schedule_steps", "final_learning_rate"):
                if getattr(self, name):
                    raise ValueError(f"{name} needs schedule linear or cosine, got constant")
            return
        if self.schedule_steps <= self.warmup_steps:
            raise ValueError(
                f"schedule_steps should be more than warmup_steps, {self.warmup_steps}, with "
                f"schedule {self.schedule}, got {self.schedule_steps}"
            )
        if self.final_learning_rate > self.learning_rate:
            raise ValueError(
                f"final_learning_rate should be learning_rate, {self.learning_rate}, or less, "
                f"got {self.final_learning_rate}"
            )

    @property
    def clips(self) -> bool:
        """Whether gradients are clipped in any of the three ways."""
        return bool(self.clip or self.clip_norm or self.clip_relative)

    @property
    def changes_learning_rate(self) -> bool:
        """Whether the learning rate is not the same at every step."""
        return self.schedule != "constant" or self.warmup_steps > 0

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of a step; steps count from 1."""
        if step <= self.warmup_steps:
            return self.learning_rate * step / (self.warmup_steps + 1)
        if self.schedule == "constant":
            return self.learning_rate
        length = self.schedule_steps - self.warmup_steps
        progress = min((step - 1 - self.warmup_steps) / max(length - 1, 1), 1.0)
        share = (
            1 - progress if self.schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2
        )
        return self.final_learning_rate + (self.learning_rate - self.final_learning_rate) * share


@dataclass(frozen=True)
class Limits:
    """When a run stops. These may change between one start of a run and the next."""

    steps: int = 10_000
    """Stop after this many steps."""
    minutes: float = 0.0
    """Stop this many minutes after each start of the command; 0 for no limit."""
    stop_at: Literal["goal", "trailing", "never"] = "goal"
    """goal: stop when one batch reaches the task's goal; trailing: when the mean of the last 100
    batches does; never: only at a limit."""

    def __post_init__(self) -> None:
        check_types(self)
        check_at_least("steps", self.steps, 1)
        check_at_least("minutes", self.minutes, 0)
