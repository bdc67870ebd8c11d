"""The RDA and the RWA on a GPU, behind the interface of `rda.scan.kernels.Kernel`."""

from contextlib import AbstractContextManager
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.activations import Choices
from rda.equations import LogState
from rda.scan.cuda.launching import Constants, Pass, Run, Sizes, pointers, products, structure
from rda.scan.kernels import (
    FinalGradient,
    Kept,
    Layout,
    Trace,
    output_is_average,
    plain_layout,
)

ATTENTION_CODES = {"exp": 0, "relu": 1, "softplus": 2, "sigmoid": 3}

# Fields in the order of the structs in rda.cu.
UnitForward = structure("UnitForward", "r0 l0 r l output averages saved slopes")
UnitBackward = structure(
    "UnitBackward", "d_r d_l r0 d_output output averages saved slopes d_input d_r0 d_l0"
)


class GpuKernel:
    """The recurrence in one of the GPU engines, with its matrix multiplies in one precision."""

    takes_no_start = True

    def __init__(self, run: Run, precision: str) -> None:
        self.run = run
        self.precision = precision

    def layout(self, choices: Choices) -> Layout:
        return plain_layout(choices)

    def forward(
        self,
        input: Tensor,
        input_weight: Tensor | None,
        bias: Tensor | None,
        weight: Tensor,
        start: LogState | None,
        choices: Choices,
        lengths: Tensor | None,
        reverse: bool,
        keep: bool,
    ) -> Trace:
        time, batch, units = input.shape[0], input.shape[1], weight.shape[1]
        projected = self._project(input, input_weight, bias)
        output = input.new_empty(time, batch, units)
        r, l = (input.new_empty(1, batch, units, dtype=torch.float32) for _ in range(2))
        if keep and input_weight is None:
            # The kernel saves its values in place of the projections; these are the caller's own.
            projected = projected.clone()
        saved = projected if keep else input.new_empty(0)
        has_averages = keep and not output_is_average(choices)
        averages = input.new_empty((time, batch, units) if has_averages else 0)
        has_slopes = keep and choices.attention != "exp"
        slopes = input.new_empty((time, batch, units) if has_slopes else 0)
        addresses = UnitForward(
            *pointers(*(start or (None, None)), r, l, output, averages, saved, slopes)
        )
        sizes = Sizes(time, batch, reverse)
        Pass(
            "forward", "rda", self.precision, _constants(choices), projected, weight, addresses,
            lengths, sizes,
        ).queue(self.run)  # fmt: skip
        return Trace(output, r, l, averages, saved, slopes)

    def backward(
        self,
        d_output: Tensor,
        d_final: FinalGradient,
        weight: Tensor,
        r0: Tensor | None,
        kept: Kept,
        choices: Choices,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        time, batch, _ = kept.output.shape
        d_input = kept.saved.new_empty(kept.saved.shape)
        d_r0, d_l0 = (None if r0 is None else torch.empty_like(r0) for _ in range(2))
        if not kept.averages.numel():
            kept = kept._replace(averages=kept.output)
        addresses = UnitBackward(*pointers(*d_final, r0, d_output, *kept, d_input, d_r0, d_l0))
        sizes = Sizes(time, batch, reverse)
        Pass(
            "backward", "rda", self.precision, _constants(choices), None, weight, addresses,
            lengths, sizes,
        ).queue(self.run)  # fmt: skip
        return d_input, d_r0, d_l0

    def products(self) -> AbstractContextManager[None]:
        """A context in which torch's float32 matmuls have this kernel's precision."""
        return products(self.precision)

    def _project(self, input: Tensor, input_weight: Tensor | None, bias: Tensor | None) -> Tensor:
        if input_weight is None:
            return input
        with self.products():
            return F.linear(input, input_weight, bias)


@cache
def _constants(choices: Choices) -> Constants:
    """The constants that rda.cu is compiled with."""
    return (
        ("DISCOUNT", int(choices.discount)),
        ("ATTENTION", ATTENTION_CODES[str(choices.attention)]),
        ("HIDDEN_TANH", int(choices.hidden == "tanh")),
        ("OUTPUT_TANH", int(choices.output == "tanh")),
    )
