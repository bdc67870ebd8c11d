"""A unit on a GPU: its step, written as CUDA, in the frame of one of the engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.addresses import Addresses, structure
from rda.scan.cuda.launching import Direction, Pass, Run, Sizes, UnitText, products
from rda.scan.cuda.text import BACKWARD, FORWARD, Layout, unit_text
from rda.scan.passes import Call, Results, Weights

if TYPE_CHECKING:
    from rda.precision import Precision
    from rda.symbolic.derived import Derived


class OnGpu:
    """A unit in one of the GPU engines, with its matrix multiplies in one precision."""

    def __init__(self, of: Derived, run: Run, precision: Precision) -> None:
        self.of, self.run, self.precision = of, run, precision
        layout = Layout(of, precision)
        name = type(of.unit).__name__
        self.unit = UnitText(name, unit_text(of, precision), layout.planes)
        self.extra = layout.extra
        self._forward = structure("UnitForward", layout.fields(FORWARD))
        self._backward = structure("UnitBackward", layout.fields(BACKWARD))

    def forward(self, call: Call, keep: bool) -> Results:
        """One direction of one layer over time."""
        input, weights = call.input, call.weights
        time, batch, units = *input.shape[:2], weights.recurrent.shape[1]
        projected = self._project(input, weights, keep)
        output = input.new_empty(time, batch, units)
        state = [_state(input, 1, batch, units) for _ in self.of.unit.parts]
        sequences, saved = [], []
        if keep:
            sequences = [torch.empty_like(output) for _ in self.of.kept.sequences]
            saved = [projected]
            saved += [input.new_empty(time, batch, self.extra * units)] if self.extra else []
        addresses = self._forward.of(
            start=call.start, state=state, weights=weights.of_units, output=output,
            sequences=sequences, **dict(zip(("saved", "extra"), saved, strict=False)),
        )  # fmt: skip
        self._queue(call, "forward", projected, addresses)
        return Results(output, state, sequences, saved)

    def backward(
        self, call: Call, results: Results, d_output: Tensor, d_final: Sequence[Tensor | None]
    ) -> tuple[Tensor, list[Tensor]]:
        """The gradients of all gates, (time, batch, blocks * hidden), and of the start."""
        output, _, sequences, saved = results
        time, batch, units = output.shape
        d_blocks = output.new_empty(time, batch, len(self.of.blocks) * units)
        d_start = [_state(output, batch, units) for _ in self.of.unit.parts]
        addresses = self._backward.of(
            d_final=d_final, start=call.start, weights=call.weights.of_units, d_output=d_output,
            output=output, sequences=sequences, d_blocks=d_blocks, d_start=d_start,
            **dict(zip(("saved", "extra"), saved, strict=False)),
        )  # fmt: skip
        self._queue(call, "backward", None, addresses)
        return d_blocks, d_start

    def _project(self, input: Tensor, weights: Weights, keep: bool) -> Tensor:
        """W x + b, in a tensor that the kernel may overwrite if it keeps values."""
        if weights.input is None:
            return input.clone() if keep else input
        with products(self.precision):
            return F.linear(input, weights.input, weights.bias)

    def _queue(
        self, call: Call, direction: Direction, projected: Tensor | None, addresses: Addresses
    ) -> None:
        sizes = Sizes(*call.input.shape[:2], call.reverse)
        Pass(
            direction, self.unit, self.precision, projected, call.weights.recurrent, addresses,
            call.lengths, sizes,
        ).queue(self.run)  # fmt: skip


def saved_blocks(of: Derived, precision: Precision) -> list[int]:
    """How many blocks of (time, batch, hidden) each tensor of `Results.saved` has."""
    inputs, extra = len(of.unit.inputs), Layout(of, precision).extra
    return [inputs, extra] if extra else [inputs]


def _state(like: Tensor, *shape: int) -> Tensor:
    """A state is float32 whatever the dtype of the sequences."""
    return like.new_empty(shape, dtype=torch.float32)
