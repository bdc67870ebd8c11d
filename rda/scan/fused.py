"""One recurrent op with a hand-written backward, shared by every fused engine.

`rda::scan` is one direction of one layer over time: projection and recurrence in an engine's
kernel, everything that the backward pass needs stored once, and the weights' gradients as one
product each after the loop. torch.compile sees one op and never unrolls time. Second derivatives
fall back to the reference.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from rda.activations import Choices
from rda.equations import LogState
from rda.scan import reference


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


KERNELS: dict[str, Callable[[], Kernel]] = {}
"""Filled by the engines, under their names; asked at run time, never while tracing."""

_CHOICES = "str attention, str hidden, str output, bool discount"


@torch.library.custom_op(
    "rda::scan",
    mutates_args=(),
    schema="(Tensor input, Tensor? input_weight, Tensor? bias, Tensor recurrent_weight, "
    f"Tensor r0, Tensor l0, Tensor? lengths, {_CHOICES}, bool reverse, bool keep, str engine) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def scan_op(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor,
    l0: Tensor,
    lengths: Tensor | None,
    attention: str,
    hidden: str,
    output: str,
    discount: bool,
    reverse: bool,
    keep: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    choices = Choices(attention, hidden, output, discount)
    return run(
        input, input_weight, bias, recurrent_weight, LogState(r0, l0), choices, lengths, reverse,
        keep, engine,
    )  # fmt: skip


def run(
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
    """The forward pass of the op, without the op around it."""
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


@scan_op.register_fake
def _(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor,
    l0: Tensor,
    lengths: Tensor | None,
    attention: str,
    hidden: str,
    output: str,
    discount: bool,
    reverse: bool,
    keep: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    choices = Choices(attention, hidden, output, discount)
    time, batch, units = input.shape[0], input.shape[1], recurrent_weight.shape[1]
    sequence = (time, batch, units)
    saved = (time, batch, choices.input_blocks * units)
    keeps_averages = not output_is_average(choices) or input.dtype != r0.dtype
    return (
        input.new_empty(sequence),
        torch.empty_like(r0, memory_format=torch.contiguous_format),
        torch.empty_like(l0, memory_format=torch.contiguous_format),
        r0.new_empty(sequence if keep and keeps_averages else 0),
        r0.new_empty(saved if keep else 0),
        r0.new_empty(sequence if keep and attention != "exp" else 0),
    )


def output_is_average(choices: Choices) -> bool:
    """Whether the output of a step is its r itself, which then is not stored twice."""
    return choices.hidden == choices.output == "identity"


@torch.library.custom_op(
    "rda::scan_backward",
    mutates_args=(),
    schema="(Tensor d_output, Tensor d_r, Tensor d_l, Tensor input, Tensor? input_weight, "
    "Tensor recurrent_weight, Tensor r0, Tensor output_sequence, Tensor averages, Tensor saved, "
    f"Tensor slopes, Tensor? lengths, {_CHOICES}, bool reverse, bool needs_input, str engine) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def scan_backward_op(
    d_output: Tensor,
    d_r: Tensor,
    d_l: Tensor,
    input: Tensor,
    input_weight: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor,
    output_sequence: Tensor,
    averages: Tensor,
    saved: Tensor,
    slopes: Tensor,
    lengths: Tensor | None,
    attention: str,
    hidden: str,
    output: str,
    discount: bool,
    reverse: bool,
    needs_input: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    choices = Choices(attention, hidden, output, discount)
    dtype = r0.dtype
    if output_sequence.dtype != dtype:
        output_sequence = choices.f_o(choices.f_h(averages))
    lengths = _ready_lengths(lengths, input)
    trace = Trace(output_sequence, d_r, d_l, averages, saved, slopes)
    weight = recurrent_weight.to(dtype).contiguous()
    d_projected, d_r0, d_l0 = KERNELS[engine]().backward(
        d_output.to(dtype).contiguous(),
        LogState(d_r.contiguous(), d_l.contiguous()),
        weight,
        r0.contiguous(),
        trace,
        choices,
        lengths,
        reverse,
    )
    h = _hidden_sequence(trace, choices)
    d_weight = _recurrent_gradient(d_projected, h, choices.f_h(r0), lengths, reverse)
    d_input, d_input_weight, d_bias = (r0.new_empty(0) for _ in range(3))
    if input_weight is None:
        d_input = d_projected
    else:
        flat = d_projected.flatten(0, 1)
        d_input_weight = _transposed_product(flat, input.flatten(0, 1).to(dtype))
        d_bias = flat.sum(0)
        if needs_input:
            d_input = d_projected @ input_weight.to(dtype)
    return d_input, d_input_weight, d_bias, d_weight, d_r0, d_l0


@scan_backward_op.register_fake
def _(
    d_output: Tensor,
    d_r: Tensor,
    d_l: Tensor,
    input: Tensor,
    input_weight: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor,
    output_sequence: Tensor,
    averages: Tensor,
    saved: Tensor,
    slopes: Tensor,
    lengths: Tensor | None,
    attention: str,
    hidden: str,
    output: str,
    discount: bool,
    reverse: bool,
    needs_input: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    projects = input_weight is not None
    return (
        r0.new_empty(input.shape if needs_input or not projects else 0),
        r0.new_empty(input_weight.shape if input_weight is not None else 0),
        r0.new_empty(input_weight.shape[0] if input_weight is not None else 0),
        r0.new_empty(recurrent_weight.shape),
        r0.new_empty(r0.shape),
        r0.new_empty(r0.shape),
    )


def _transposed_product(tall: Tensor, narrow: Tensor) -> Tensor:
    """tall.t() @ narrow; with few columns BLAS is several times quicker the other way round."""
    return tall.t() @ narrow if narrow.shape[1] >= 32 else (narrow.t() @ tall).t().contiguous()


def _hidden_sequence(trace: Trace, choices: Choices) -> Tensor:
    """h of every step, from whichever tensor holds it."""
    if choices.output == "identity":
        return trace.output
    return choices.f_h(trace.averages)


def _recurrent_gradient(
    d_projected: Tensor, h: Tensor, h0: Tensor, lengths: Tensor | None, reverse: bool
) -> Tensor:
    """The gates' gradients times the h that each step saw, summed over time and batch."""
    d_gates = d_projected[..., h.shape[-1] :]
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


def _setup_context(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
    input, input_weight, bias, recurrent_weight, r0, l0, lengths = inputs[:7]
    out, _, _, averages, saved, slopes = output
    ctx.save_for_backward(
        input, input_weight, bias, recurrent_weight, r0, l0, lengths, out, averages, saved, slopes
    )
    *names, reverse, _, engine = inputs[7:]
    ctx.choices, ctx.reverse, ctx.engine = Choices(*names), reverse, engine
    ctx.mark_non_differentiable(averages, saved, slopes)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    tensors, choices = ctx.saved_tensors, ctx.choices
    differentiated = tensors[:6]
    if torch.is_grad_enabled():
        found = _reference_gradients(ctx, differentiated, tensors[6], gradients[:3])
        return *found, *[None] * 8
    input, input_weight, _, recurrent_weight, r0 = tensors[:5]
    lengths, out, averages, saved, slopes = tensors[6:]
    d_output, d_r, d_l = (
        torch.zeros_like(like) if gradient is None else gradient
        for gradient, like in zip(gradients, (out, r0, r0), strict=False)
    )
    found = scan_backward_op(
        d_output, d_r, d_l, input, input_weight, recurrent_weight, r0, out, averages, saved,
        slopes, lengths, choices.attention, choices.hidden, choices.output, choices.discount,
        ctx.reverse, ctx.needs_input_grad[0], ctx.engine,
    )  # fmt: skip
    wanted = (
        gradient.to(tensor.dtype) if tensor is not None and needed else None
        for gradient, tensor, needed in zip(
            found, differentiated, ctx.needs_input_grad, strict=False
        )
    )
    return *wanted, *[None] * 8


def _reference_gradients(
    ctx: Any, inputs: Sequence[Any], lengths: Tensor | None, gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """For second derivatives: the same gradients, from a graph that autograd can go through."""
    input, input_weight, bias, recurrent_weight, r0, l0 = inputs
    output, final = reference.scan(
        input, input_weight, bias, recurrent_weight, LogState(r0, l0), ctx.choices, lengths,
        ctx.reverse,
    )  # fmt: skip
    reached = [
        (result, gradient)
        for result, gradient in zip((output, *final), gradients, strict=True)
        if gradient is not None and result.requires_grad
    ]
    needed = [k for k in range(6) if ctx.needs_input_grad[k]]
    results: list[Tensor | None] = [None] * 6
    found = torch.autograd.grad(
        [result for result, _ in reached],
        [inputs[k] for k in needed],
        [gradient for _, gradient in reached],
        create_graph=True,
        allow_unused=True,
    )
    for k, gradient in zip(needed, found, strict=True):
        results[k] = gradient
    return results


scan_op.register_autograd(_backward, setup_context=_setup_context)


def scan(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    start: LogState,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    engine: str,
) -> tuple[Tensor, LogState]:
    """The op as an engine's `scan`."""
    tensors = (input, input_weight, bias, recurrent_weight, *start)
    keep = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    is_plain = type(input) in (Tensor, nn.Parameter) and not traced
    if keep or not is_plain:
        output, r, l, *_ = scan_op(
            input, input_weight, bias, recurrent_weight, *start, lengths, choices.attention,
            choices.hidden, choices.output, choices.discount, reverse, keep, engine,
        )  # fmt: skip
        return output, LogState(r, l)
    # Without gradients there is nothing to register, and single steps should not pay for it.
    trace = run(
        input, input_weight, bias, recurrent_weight, start, choices, lengths, reverse, False, engine
    )
    return trace.output, LogState(trace.r, trace.l)
