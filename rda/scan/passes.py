"""What a pass of a unit over time takes and gives, whatever engine runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from rda.symbolic.derived import Derived
    from rda.units import Unit


class Weights(NamedTuple):
    """The weights of one direction of a layer; a kernel's have gates as in `Derived.gates`."""

    input: Tensor | None
    """(gates of x * hidden, features); None where the input is W x + b already."""
    bias: Tensor | None
    recurrent: Tensor
    """(gates of h * hidden, hidden)."""
    of_units: tuple[Tensor, ...] = ()
    """The unit's own weights, (hidden,) each."""


class Call(NamedTuple):
    """One direction of one layer over time."""

    unit: Unit
    key: str
    """The unit's key; empty where it cannot be traced."""
    input: Tensor
    """(time, batch, features)."""
    weights: Weights
    """With gates in the order of the unit's definition."""
    start: tuple[Tensor, ...]
    """(batch, hidden) for each part of the state; empty for the unit's own start."""
    lengths: Tensor | None
    reverse: bool

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All that a gradient can be asked for."""
        return (self.input, *self.weights[:3], *self.start, *self.weights.of_units)

    def with_tensors(self, tensors: Sequence[Any]) -> Call:
        """The same call with others in the place of `tensors`."""
        input, input_weight, bias, recurrent, *others = tensors
        start, of_units = others[: len(self.start)], others[len(self.start) :]
        weights = Weights(input_weight, bias, recurrent, tuple(of_units))
        return self._replace(input=input, weights=weights, start=tuple(start))


class Results(NamedTuple):
    """What a forward pass gives; `sequences` and `saved` are kept for the backward pass."""

    output: Tensor
    """(time, batch, hidden), zero beyond a row's end."""
    state: list[Tensor]
    """The final state, (1, batch, hidden) each."""
    sequences: list[Tensor]
    """The parts of the state that `Derived.kept` names, at every step: (time, batch, hidden)."""
    saved: list[Tensor]
    """Values of every step, in the engine's own layout."""


class Kernel(Protocol):
    """A unit in an engine. All tensors are contiguous."""

    of: Derived

    def forward(
        self,
        input: Tensor,
        weights: Weights,
        start: Sequence[Tensor | None],
        lengths: Tensor | None,
        reverse: bool,
        keep: bool,
    ) -> Results:
        """One direction of one layer over time. A start of None is the unit's own.

        `lengths` are int64 on the input's device, from 0 to time.
        """

    def backward(
        self,
        d_output: Tensor,
        d_final: Sequence[Tensor | None],
        weights: Weights,
        start: Sequence[Tensor | None],
        results: Results,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, list[Tensor]]:
        """The gradients of all gates, (time, batch, blocks * hidden) in the order of
        `Derived.blocks`, and of the start, (batch, hidden) each."""
