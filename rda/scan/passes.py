"""What a pass of a unit over time takes and gives, whatever engine runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rda.symbolic.derived import Derived
    from rda.units import Unit


class Weights(NamedTuple):
    """The weights of one direction of a layer."""

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
    """With gates in the order of the unit's definition, except for a kernel."""
    start: tuple[Tensor, ...]
    """(batch, hidden) for each part of the state; empty for the unit's own start."""
    lengths: Tensor | None
    reverse: bool

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All that a gradient can be asked for."""
        return (self.input, *self.weights[:3], *self.start, *self.weights.of_units)

    @property
    def starts(self) -> tuple[Tensor | None, ...]:
        """One for each part of the state; None for the unit's own."""
        return self.start or (None,) * len(self.unit.parts)

    def with_tensors(self, tensors: Sequence[Any]) -> Call:
        """The same call with others in the place of `tensors`."""
        input, input_weight, bias, recurrent, *others = tensors
        start, of_units = others[: len(self.start)], others[len(self.start) :]
        weights = Weights(input_weight, bias, recurrent, tuple(of_units))
        return self._replace(input=input, weights=weights, start=tuple(start))

    def in_dtype(self, dtype: torch.dtype) -> Call:
        """The same call with input and weights in this dtype; a start stays as it is."""
        if self.input.dtype == self.weights.recurrent.dtype == dtype:
            return self
        cast = [None if tensor is None else tensor.to(dtype) for tensor in self.tensors]
        return self.with_tensors(cast)._replace(start=self.start)


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
    """A unit in an engine.

    Tensors of a call are contiguous, gates in the order of `Derived.gates`, lengths int64 on the
    input's device and from 0 to time.
    """

    of: Derived

    def forward(self, call: Call, keep: bool) -> Results:
        """One direction of one layer over time; `keep` what a backward pass needs."""

    def backward(
        self, call: Call, results: Results, d_output: Tensor, d_final: Sequence[Tensor | None]
    ) -> tuple[Tensor, list[Tensor]]:
        """The gradients of all gates, (time, batch, blocks * hidden) in the order of
        `Derived.blocks`, and of the start, (batch, hidden) each."""
