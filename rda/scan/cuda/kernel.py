"""The RDA and the RWA on chip, behind the interface of `rda.scan.kernels.Kernel`."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.activations import Choices
from rda.equations import LogState
from rda.scan.cuda.onchip import Sizes, launcher, pointer, pointers, products, structure
from rda.scan.kernels import Trace, output_is_average

ATTENTION_CODES = {"exp": 0, "relu": 1, "softplus": 2, "sigmoid": 3}

# In the order of the structs in rda.cu.
UnitForward = structure("UnitForward", "r0 l0 output r l averages saved slopes")
UnitBackward = structure(
    "UnitBackward", "d_output d_r d_l r0 output averages saved slopes d_input d_r0 d_l0"
)


class ClusterKernel:
    """The recurrence in clusters of thread blocks, its products in one precision."""

    def __init__(self, product: str) -> None:
        self.product = product

    def forward(
        self,
        input: Tensor,
        input_weight: Tensor | None,
        bias: Tensor | None,
        weight: Tensor,
        start: LogState,
        choices: Choices,
        lengths: Tensor | None,
        reverse: bool,
        keep: bool,
    ) -> Trace:
        time, batch, units = input.shape[0], input.shape[1], weight.shape[1]
        projected = self._project(input, input_weight, bias)
        output = input.new_empty(time, batch, units)
        r, l = torch.empty_like(start.r), torch.empty_like(start.l)
        averages, saved, slopes = (input.new_empty(0) for _ in range(3))
        if keep:
            # In the place of the projections, unless those are the caller's own.
            saved = torch.empty_like(projected) if input_weight is None else projected
            if not output_is_average(choices):
                averages = input.new_empty(time, batch, units)
            if choices.attention != "exp":
                slopes = input.new_empty(time, batch, units)
        at = UnitForward(*pointers(*start, output, r, l, averages, saved, slopes))
        sizes = Sizes(time, batch, reverse)
        with torch.cuda.device(input.device):
            launch = self._launcher("forward", weight, choices, batch)
            launch(pointer(projected), pointer(weight), at, pointer(lengths), sizes)
        return Trace(output, r, l, averages, saved, slopes)

    def backward(
        self,
        d_output: Tensor,
        d_final: LogState,
        weight: Tensor,
        r0: Tensor,
        trace: Trace,
        choices: Choices,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        time, batch, _ = trace.output.shape
        d_input = torch.empty_like(trace.saved)
        d_r0, d_l0 = torch.empty_like(r0), torch.empty_like(r0)
        averages = trace.averages if trace.averages.numel() else trace.output
        kept = (trace.output, averages, trace.saved, trace.slopes)
        at = UnitBackward(*pointers(d_output, *d_final, r0, *kept, d_input, d_r0, d_l0))
        sizes = Sizes(time, batch, reverse)
        with torch.cuda.device(r0.device):
            launch = self._launcher("backward", weight, choices, batch)
            launch(pointer(weight), at, pointer(lengths), sizes)
        return d_input, d_r0, d_l0

    def products(self) -> AbstractContextManager[None]:
        """torch's own float32 products in the precision of this kernel's."""
        return products(self.product)

    def _project(self, input: Tensor, input_weight: Tensor | None, bias: Tensor | None) -> Tensor:
        if input_weight is None:
            return input
        with self.products():
            return F.linear(input, input_weight, bias)

    def _launcher(
        self, name: str, weight: Tensor, choices: Choices, batch: int
    ) -> Callable[..., None]:
        return launcher(
            name,
            "rda",
            self.product,
            weight,
            batch,
            DISCOUNT=int(choices.discount),
            ATTENTION=ATTENTION_CODES[str(choices.attention)],
            HIDDEN_TANH=int(choices.hidden == "tanh"),
            OUTPUT_TANH=int(choices.output == "tanh"),
        )
