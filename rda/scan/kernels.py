"""The recurrence inside the op: what an engine's kernel does, and the products around it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState


class Trace(NamedTuple):
    """What a fused forward pass leaves behind; empty tensors where there is nothing to keep."""

    output: Tensor  # o of every step, (time, batch, hidden), zero beyond a row's end
    r: Tensor  # the final state, (batch, hidden)
    l: Tensor
    averages: Tensor  # r of every step, unless the output is that already
    saved: Tensor  # (time, batch, blocks * hidden): u, tanh g, p, sigma(-gamma~)
    slopes: Tensor  # d log a / d a~ of every step, unless it is 1


class Kernel(Protocol):
    """The recurrence itself. Every tensor is contiguous and in the state's dtype."""

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
        """Without an input weight the input is projected already; `keep` fills the trace."""

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
        """The gradients of projected, r0 and l0."""

    def products(self) -> AbstractContextManager[None]:
        """Where torch's own products have this kernel's precision."""


KERNELS: dict[str, Callable[[], Kernel]] = {}
"""Filled by the engines, under their names; asked at run time, never while tracing."""


def run_forward(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    start: LogState,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    keep: bool,
    engine: str,
) -> Trace:
    """The forward pass, in the state's dtype whatever the input's."""
    dtype = start.r.dtype

    def ready(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.to(dtype).contiguous()

    trace = KERNELS[engine]().forward(
        input.to(dtype).contiguous(),
        ready(input_weight),
        ready(bias),
        recurrent_weight.to(dtype).contiguous(),
        LogState(start.r.contiguous(), start.l.contiguous()),
        choices,
        _ready_lengths(lengths, input),
        reverse,
        keep,
    )
    if trace.output.dtype == input.dtype:
        return trace
    averages = trace.output if keep and output_is_average(choices) else trace.averages
    return trace._replace(output=trace.output.to(input.dtype), averages=averages)


def _ready_lengths(lengths: Tensor | None, input: Tensor) -> Tensor | None:
    # Clamped, because traced code comes here with values that nobody could check.
    if lengths is None:
        return None
    return lengths.to(input.device, torch.int64).clamp(0, input.shape[0]).contiguous()


def output_is_average(choices: Choices) -> bool:
    """Whether the output of a step is its r itself, which then is not stored twice."""
    return choices.hidden == choices.output == "identity"


def run_backward(
    d_output: Tensor,
    d_final: LogState,
    input: Tensor,
    input_weight: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor,
    trace: Trace,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    needs_input: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of input, input weight, bias, recurrent weight, r0, l0; empty where not wanted."""
    dtype = r0.dtype
    if trace.output.dtype != dtype:
        trace = trace._replace(output=choices.f_o(choices.f_h(trace.averages)))
    lengths = _ready_lengths(lengths, input)
    weight = recurrent_weight.to(dtype).contiguous()
    kernel = KERNELS[engine]()
    d_projected, d_r0, d_l0 = kernel.backward(
        d_output.to(dtype).contiguous(),
        LogState(d_final.r.contiguous(), d_final.l.contiguous()),
        weight,
        r0.contiguous(),
        trace,
        choices,
        lengths,
        reverse,
    )
    h = _hidden_sequence(trace, choices)
    d_input, d_input_weight, d_bias = (r0.new_empty(0) for _ in range(3))
    with kernel.products():
        d_gates = d_projected[..., h.shape[-1] :]
        d_weight = recurrent_gradient(d_gates, h, choices.f_h(r0), lengths, reverse)
        if input_weight is None:
            d_input = d_projected
        else:
            flat = d_projected.flatten(0, 1)
            d_input_weight, d_bias = projection_gradients(flat, input.flatten(0, 1).to(dtype))
            if needs_input:
                d_input = d_projected @ input_weight.to(dtype)
    return d_input, d_input_weight, d_bias, d_weight, d_r0, d_l0


def projection_gradients(d_projected: Tensor, input: Tensor) -> tuple[Tensor, Tensor]:
    """d_projected.t() @ input, and the sum over all rows: a column of ones more in the input.

    With few columns BLAS is several times quicker the other way round.
    """
    ones = input.new_ones(len(input), 1)
    if input.shape[1] >= 32:
        return d_projected.t() @ input, (ones.t() @ d_projected).flatten()
    both = torch.cat((input, ones), dim=1).t() @ d_projected
    return both[:-1].t().contiguous(), both[-1].clone()


def _hidden_sequence(trace: Trace, choices: Choices) -> Tensor:
    """h of every step, from whichever tensor holds it."""
    if choices.output == "identity":
        return trace.output
    return choices.f_h(trace.averages)


def recurrent_gradient(
    d_gates: Tensor, h: Tensor, h0: Tensor, lengths: Tensor | None, reverse: bool
) -> Tensor:
    """The gates' gradients times the h that each step saw, summed over time and batch."""
    if reverse:
        later, earlier = d_gates[:-1], h[1:]
    else:
        later, earlier = d_gates[1:], h[:-1]
    total = later.flatten(0, 1).t() @ earlier.flatten(0, 1)
    if not reverse:
        first = d_gates[0]
    elif lengths is None:
        first = d_gates[-1]
    else:
        rows = torch.arange(len(lengths), device=lengths.device)
        first = d_gates[(lengths - 1).clamp(min=0), rows]
    return total.addmm_(first.t(), h0)
