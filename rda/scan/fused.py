"""One recurrent op with a hand-written backward, shared by every fused engine.

`rda::scan` is one direction of one layer over time. What runs inside it is in
`rda.scan.kernels`; here it is made known to torch: its schema, its fake implementation, its
derivative. torch.compile sees one op and never unrolls time. Second derivatives fall back to the
reference.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.precision import autocast_off, in_dtype, state_dtype
from rda.scan import reference
from rda.scan.kernels import (
    Kept,
    output_is_average,
    run_backward,
    run_forward,
    stored_dtype,
)
from rda.scan.tracing import is_batched, is_differentiated, is_plain, is_traced_for_later

# The engine `graph` keeps buffers of its own, which torch.compile's own graphs must not own.
_TAGS = (torch.Tag.cudagraph_unsafe,)
_CHOICES = "str attention, str hidden, str output, bool discount"


def _forward(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor | None,
    l0: Tensor | None,
    lengths: Tensor | None,
    attention: str,
    hidden: str,
    output: str,
    discount: bool,
    reverse: bool,
    keep: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    choices = Choices.named(attention, hidden, output, discount)
    return run_forward(
        input, input_weight, bias, recurrent_weight, _state(r0, l0), choices, lengths, reverse,
        keep, engine,
    )  # fmt: skip


def _state(r: Tensor | None, l: Tensor | None) -> LogState | None:
    if r is None and l is None:
        return None
    if r is None or l is None:
        raise ValueError("r0 and l0 should be given both or not at all")
    return LogState(r, l)


scan_op = torch.library.custom_op(
    "rda::scan",
    _forward,
    mutates_args=(),
    tags=_TAGS,
    schema="(Tensor input, Tensor? input_weight, Tensor? bias, Tensor recurrent_weight, "
    f"Tensor? r0, Tensor? l0, Tensor? lengths, {_CHOICES}, bool reverse, bool keep, str engine) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@scan_op.register_fake
def _(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor | None,
    l0: Tensor | None,
    lengths: Tensor | None,
    attention: str,
    hidden: str,
    output: str,
    discount: bool,
    reverse: bool,
    keep: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    choices = Choices.named(attention, hidden, output, discount)
    time, batch, units = input.shape[0], input.shape[1], recurrent_weight.shape[1]
    sequence = (time, batch, units)
    saved = (time, batch, choices.input_blocks * units)
    wide = state_dtype(input.dtype)
    dtype = stored_dtype(engine, wide)
    keeps_averages = not output_is_average(choices) or input.dtype != dtype
    return (
        input.new_empty(sequence),
        input.new_empty((1, batch, units), dtype=wide),
        input.new_empty((1, batch, units), dtype=wide),
        input.new_empty(sequence if keep and keeps_averages else 0, dtype=dtype),
        input.new_empty(saved if keep else 0, dtype=dtype),
        input.new_empty(sequence if keep and attention != "exp" else 0, dtype=dtype),
    )


def _backward_pass(
    d_output: Tensor,
    d_r: Tensor | None,
    d_l: Tensor | None,
    input: Tensor,
    input_weight: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor | None,
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
) -> tuple[Tensor, ...]:
    kept = Kept(output_sequence, averages, saved, slopes)
    found = run_backward(
        d_output, d_r, d_l, input, input_weight, recurrent_weight, r0, kept,
        Choices.named(attention, hidden, output, discount), lengths, reverse, needs_input, engine,
    )  # fmt: skip
    wide = state_dtype(input.dtype)
    dtypes = [stored_dtype(engine, wide)] * 4 + [wide] * 2
    return tuple(  # for an op returns tensors
        input.new_empty(0, dtype=dtype) if gradient is None else gradient
        for gradient, dtype in zip(found, dtypes, strict=True)
    )


scan_backward_op = torch.library.custom_op(
    "rda::scan_backward",
    _backward_pass,
    mutates_args=(),
    tags=_TAGS,
    schema="(Tensor d_output, Tensor? d_r, Tensor? d_l, Tensor input, Tensor? input_weight, "
    "Tensor recurrent_weight, Tensor? r0, Tensor output_sequence, Tensor averages, Tensor saved, "
    f"Tensor slopes, Tensor? lengths, {_CHOICES}, bool reverse, bool needs_input, str engine) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@scan_backward_op.register_fake
def _(
    d_output: Tensor,
    d_r: Tensor | None,
    d_l: Tensor | None,
    input: Tensor,
    input_weight: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor | None,
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
    wide = state_dtype(input.dtype)
    dtype = stored_dtype(engine, wide)
    start = 0 if r0 is None else r0.shape
    return (
        input.new_empty(input.shape if needs_input or not projects else 0, dtype=dtype),
        input.new_empty(input_weight.shape if input_weight is not None else 0, dtype=dtype),
        input.new_empty(input_weight.shape[0] if input_weight is not None else 0, dtype=dtype),
        input.new_empty(recurrent_weight.shape, dtype=dtype),
        input.new_empty(start, dtype=wide),
        input.new_empty(start, dtype=wide),
    )


def _setup_context(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
    *names, reverse, keep, engine = inputs[7:]
    _remember(ctx, inputs[:7], output, Choices.named(*names), reverse, engine)
    ctx.mark_non_differentiable(*output[3:])
    ctx.kept = keep


def _remember(
    ctx: Any,
    inputs: Sequence[Any],
    output: Sequence[Tensor],
    choices: Choices,
    reverse: bool,
    engine: str,
) -> None:
    out, _, _, averages, saved, slopes = output
    ctx.save_for_backward(*inputs, out, averages, saved, slopes)
    ctx.choices, ctx.reverse, ctx.engine = choices, reverse, engine
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    def through_the_op(*arguments: Any) -> Sequence[Tensor | None]:
        *tensors, kept, choices, lengths, reverse, needs_input, engine = arguments
        names = (choices.attention, choices.hidden, choices.output, choices.discount)
        if not ctx.kept:
            output, _, _, *others = scan_op(*ctx.saved_tensors[:7], *names, reverse, True, engine)
            kept = Kept(output, *others)
        found: Sequence[Tensor] = scan_backward_op(
            *tensors, *kept, lengths, *names, reverse, needs_input, engine
        )
        return found

    return *_gradients(ctx, gradients, through_the_op), *[None] * 8


def _gradients(
    ctx: Any, gradients: Sequence[Tensor | None], backward: Callable[..., Sequence[Tensor | None]]
) -> list[Tensor | None]:
    """The gradients of the six differentiable inputs; `backward` is called as `run_backward` is."""
    tensors = ctx.saved_tensors
    differentiated = tensors[:6]
    if torch.is_grad_enabled() or is_batched(gradients):
        return _reference_gradients(ctx, differentiated, tensors[6], gradients[:3])
    input, input_weight, _, recurrent_weight, r0 = tensors[:5]
    lengths, *kept = tensors[6:]
    d_output, d_r, d_l = gradients[:3]
    if d_output is None:
        d_output = torch.zeros_like(kept[0])
    with autocast_off(input):
        found = backward(
            d_output, d_r, d_l, input, input_weight, recurrent_weight, r0, Kept(*kept),
            ctx.choices, lengths, ctx.reverse, ctx.needs_input_grad[0], ctx.engine,
        )  # fmt: skip
    return [
        in_dtype(gradient, tensor.dtype) if gradient is not None and needed else None
        for gradient, tensor, needed in zip(
            found, differentiated, ctx.needs_input_grad, strict=False
        )
    ]


def _reference_gradients(
    ctx: Any, inputs: Sequence[Any], lengths: Tensor | None, gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The same gradients from operations that torch can differentiate again and batch."""
    again = torch.is_grad_enabled()
    needed = [k for k in range(6) if ctx.needs_input_grad[k]]
    if not again:
        inputs = [None if x is None else x.detach() for x in inputs]
        for k in needed:
            inputs[k].requires_grad_()
    input, input_weight, bias, recurrent_weight, r0, l0 = inputs
    with torch.enable_grad():
        output, final = reference.scan(
            input, input_weight, bias, recurrent_weight, _state(r0, l0), ctx.choices, lengths,
            ctx.reverse,
        )  # fmt: skip
    reached = [
        (result, gradient)
        for result, gradient in zip((output, *final), gradients, strict=True)
        if gradient is not None and result.requires_grad
    ]
    results: list[Tensor | None] = [None] * 6
    found = torch.autograd.grad(
        [result for result, _ in reached],
        [inputs[k] for k in needed],
        [gradient for _, gradient in reached],
        create_graph=again,
        allow_unused=True,
    )
    for k, gradient in zip(needed, found, strict=True):
        results[k] = gradient
    return results


scan_op.register_autograd(_backward, setup_context=_setup_context)


class _PlainScan(torch.autograd.Function):
    """The op without torch's dispatcher, which costs more than a short sequence takes."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        input, input_weight, bias, weight, r0, l0, lengths, choices, reverse, engine = inputs
        output = run_forward(
            input, input_weight, bias, weight, _state(r0, l0), choices, lengths, reverse, True,
            engine,
        )  # fmt: skip
        _remember(ctx, inputs[:7], output, choices, reverse, engine)
        return output[0], output[1], output[2]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return *_gradients(ctx, gradients, run_backward), *[None] * 4


def scan(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    start: LogState | None,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    engine: str,
) -> tuple[Tensor, LogState]:
    """The op as an engine's `scan`."""
    tensors = (input, input_weight, bias, recurrent_weight, *(start or (None, None)))
    if not is_plain(input):
        # What is traced for later may run without gradients, where all that is kept is a waste:
        # if it does need gradients, its backward pass computes what is missing again.
        keep = is_differentiated(tensors) and not is_traced_for_later()
        output, r, l, *_ = scan_op(
            *tensors, lengths, choices.attention, choices.hidden, choices.output,
            choices.discount, reverse, keep, engine,
        )  # fmt: skip
        return output, LogState(r, l)
    if is_differentiated(tensors):
        output, r, l = _PlainScan.apply(  # type: ignore[no-untyped-call]
            *tensors, lengths, choices, reverse, engine
        )
        return output, LogState(r, l)
    # Without gradients there is nothing to register, and single steps should not pay for it.
    trace = run_forward(
        input, input_weight, bias, recurrent_weight, start, choices, lengths, reverse, False, engine
    )
    return trace.output, LogState(trace.r, trace.l)
