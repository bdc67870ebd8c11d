"""A unit on a GPU: its step, written as CUDA, in the frame of one of the engines."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.addresses import structure
from rda.scan.cuda.launching import Pass, Run, Sizes, UnitText, products
from rda.scan.cuda.text import BACKWARD, FORWARD, Layout, unit_text
from rda.scan.passes import Results, Weights

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

    def forward(
        self,
        input: Tensor,
        weights: Weights,
        start: Sequence[Tensor | None],
        lengths: Tensor | None,
        reverse: bool,
        keep: bool,
    ) -> Results:
        """One direction of one layer over time. A start of None is the unit's own."""
        time, batch, units = *input.shape[:2], weights.recurrent.shape[1]
        projected = self._project(input, weights, keep)
        output = input.new_empty(time, batch, units)
        state = [_state(input, 1, batch, units) for _ in self.of.unit.parts]
        sequences, saved = [], []
        if keep:
            sequences = [torch.empty_like(output) for _ in self.of.kept.sequences]
            saved = [projected]
            saved += [input.new_empty(time, batch, self.extra * units)] if self.extra else []
        addresses = self._forward(
            start=start, state=state, weights=weights.of_units, output=output, sequences=sequences,
            **dict(zip(("saved", "extra"), saved, strict=False)),
        )  # fmt: skip
        sizes = Sizes(time, batch, reverse)
        self._queue("forward", projected, weights, addresses, lengths, sizes)
        return Results(output, state, sequences, saved)

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
        """The gradients of all gates, (time, batch, blocks * hidden), and of the start."""
        output, _, sequences, saved = results
        time, batch, units = output.shape
        d_blocks = output.new_empty(time, batch, len(self.of.blocks) * units)
        d_start = [_state(output, batch, units) for _ in self.of.unit.parts]
        addresses = self._backward(
            d_final=d_final, start=start, weights=weights.of_units, d_output=d_output,
            output=output, sequences=sequences, d_blocks=d_blocks, d_start=d_start,
            **dict(zip(("saved", "extra"), saved, strict=False)),
        )  # fmt: skip
        self._queue("backward", None, weights, addresses, lengths, Sizes(time, batch, reverse))
        return d_blocks, d_start

    def _project(self, input: Tensor, weights: Weights, keep: bool) -> Tensor:
        """W x + b, in a tensor that the kernel may overwrite if it keeps values."""
        if weights.input is None:
            return input.clone() if keep else input
        with products(self.precision):
            return F.linear(input, weights.input, weights.bias)

    def _queue(
        self,
        direction: Literal["forward", "backward"],
        projected: Tensor | None,
        weights: Weights,
        addresses: ctypes.Structure,
        lengths: Tensor | None,
        sizes: Sizes,
    ) -> None:
        Pass(
            direction, self.unit, self.precision, projected, weights.recurrent, addresses,
            lengths, sizes,
        ).queue(self.run)  # fmt: skip


def saved_blocks(of: Derived, precision: Precision) -> list[int]:
    """How many blocks of (time, batch, hidden) each tensor of `Results.saved` has."""
    inputs, extra = len(of.unit.inputs), Layout(of, precision).extra
    return [inputs, extra] if extra else [inputs]


def _state(like: Tensor, *shape: int) -> Tensor:
    """A state is float32 whatever the dtype of the sequences."""
    return like.new_empty(shape, dtype=torch.float32)
