"""One recurrent operator with a hand-written backward pass, shared by every fused engine.

`rda::scan` is one direction of one layer over time. Because it is an operator of torch,
torch.compile sees a single node and never unrolls time. Second derivatives and batched gradients
are computed by the reference instead.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.precision import autocast_off, in_dtype
from rda.scan import reference
from rda.scan.again import gradients_again
from rda.scan.kernels import Kept, run_backward, run_forward
from rda.scan.op import scan_backward_op, scan_op, state_from
from rda.scan.tracing import is_batched, is_differentiated, is_plain, is_traced_for_later


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

    def run(
        input: Tensor,
        input_weight: Tensor | None,
        bias: Tensor | None,
        recurrent_weight: Tensor,
        r0: Tensor | None,
        l0: Tensor | None,
    ) -> tuple[Tensor, ...]:
        output, final = reference.scan(
            input, input_weight, bias, recurrent_weight, state_from(r0, l0), ctx.choices, lengths,
            ctx.reverse,
        )  # fmt: skip
        return output, *final

    return gradients_again(run, inputs, ctx.needs_input_grad[:6], gradients)


scan_op.register_autograd(_backward, setup_context=_setup_context)


class _PlainScan(torch.autograd.Function):
    """The operator called directly: torch's dispatcher takes longer than a short sequence."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        input, input_weight, bias, weight, r0, l0, lengths, choices, reverse, engine = inputs
        output = run_forward(
            input, input_weight, bias, weight, state_from(r0, l0), choices, lengths, reverse, True,
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
    """The operator as the `scan` of an engine."""
    tensors = (input, input_weight, bias, recurrent_weight, *(start or (None, None)))
    if not is_plain(input):
        # A program that is traced for later may run without gradients, so it keeps nothing for a
        # backward pass. If there is one after all, it runs the forward pass again.
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
    # Without gradients nothing has to be registered with autograd, which saves time at each step.
    trace = run_forward(
        input, input_weight, bias, recurrent_weight, start, choices, lengths, reverse, False, engine
    )
    return trace.output, LogState(trace.r, trace.l)
