"""Any compiled unit as one differentiable operation: a direction of a layer over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.again import gradients_again
from rda.scan.by_definition import Work, reference
from rda.scan.kernels import in_memory, projection_gradients, recurrent_gradient
from rda.scan.passes import Results, Weights
from rda.scan.tracing import is_batched, is_differentiated

if TYPE_CHECKING:
    from rda.scan.cpu.native import Native

Given = tuple[Tensor | None, ...]


def scan(
    native: Native,
    input: Tensor,
    weights: Weights,
    start: Sequence[Tensor | None],
    lengths: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, ...]:
    """The output of every step, (time, batch, hidden), and each part of the final state."""
    assert weights.input is not None
    tensors = (input, *weights[:3], *start, *weights.of_units)
    # The kernel would read memory beyond a tensor of a smaller dtype.
    for tensor in tensors:
        if tensor is not None and tensor.dtype != input.dtype:
            raise RuntimeError(
                "input, weights and states should have one dtype, "
                f"got {input.dtype} and {tensor.dtype}"
            )
    given = tuple(None if tensor is None else in_memory(tensor) for tensor in tensors)
    if is_differentiated(given):
        found: tuple[Tensor, ...] = _Scan.apply(  # type: ignore[no-untyped-call]
            native, lengths, reverse, *given
        )
        return found
    results = native.forward(*_split(native, given), lengths, reverse, keep=False)
    return results.output, *results.state


def _split(native: Native, given: Given) -> tuple[Any, Weights, Given]:
    """The input, the weights and the start."""
    input, input_weight, bias, recurrent, *others = given
    parts = len(native.of.unit.parts)
    of_units: Any = tuple(others[parts:])
    assert recurrent is not None
    return input, Weights(input_weight, bias, recurrent, of_units), tuple(others[:parts])


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, native: Native, lengths: Any, reverse: bool, *given: Any) -> Any:
        results = native.forward(*_split(native, given), lengths, reverse, keep=True)
        ctx.native, ctx.reverse, ctx.count = native, reverse, len(given)
        ctx.save_for_backward(lengths, *given, results.output, *results.saved, *results.sequences)
        ctx.set_materialize_grads(False)
        return results.output, *results.state

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        lengths, *others = ctx.saved_tensors
        given, (output, saved, *sequences) = others[: ctx.count], others[ctx.count :]
        if torch.is_grad_enabled() or is_batched(gradients):
            found = _reference_gradients(ctx, given, lengths, gradients)
        else:
            results = Results(output, [], sequences, [saved])
            found = _gradients(ctx, given, results, lengths, gradients)
        return None, None, None, *found


def _gradients(
    ctx: Any,
    given: Given,
    results: Results,
    lengths: Tensor | None,
    gradients: Sequence[Tensor | None],
) -> list[Tensor | None]:
    native, reverse = ctx.native, ctx.reverse
    input, weights, start = _split(native, given)
    d_output, *d_final = (None if each is None else in_memory(each) for each in gradients)
    if d_output is None:
        d_output = torch.zeros_like(results.output)
    d_blocks, d_start = native.backward(
        d_output, d_final, weights, start, results, lengths, reverse
    )
    units, gates = weights.recurrent.shape[1], native.of.gates
    x_only, of_x = len(gates.x_only), len(gates.x_only) + len(gates.both)
    d_gates = d_blocks[..., x_only * units : (of_x + len(gates.h_only)) * units]
    h = native.of.hidden_of(results.output, results.sequences)
    h0 = native.of.first_hidden(start, results.output[0])
    d_recurrent = recurrent_gradient(d_gates, h, h0, lengths, reverse)
    d_x = d_blocks[..., : of_x * units]
    d_weight, d_bias = projection_gradients(d_x.flatten(0, 1), input.flatten(0, 1))
    d_input = d_x @ weights.input if ctx.needs_input_grad[3] else None
    blocks = d_blocks.unflatten(-1, (-1, units))
    of_units = [blocks[:, :, place].sum((0, 1)) for place in native.of.weight_blocks]
    found = (d_input, d_weight, d_bias, d_recurrent, *d_start, *of_units)
    return [
        None if tensor is None or not needed else gradient
        for gradient, tensor, needed in zip(found, given, ctx.needs_input_grad[3:], strict=True)
    ]


def _reference_gradients(
    ctx: Any, given: Given, lengths: Tensor | None, gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The same from operations that torch can differentiate again and batch."""
    of = ctx.native.of

    def run(*inputs: Tensor | None) -> tuple[Tensor, ...]:
        input, weights, start = _split(ctx.native, inputs)
        assert weights.input is not None
        projected = F.linear(input, weights.input, weights.bias)
        projected, recurrent = of.in_definition_order(projected, weights.recurrent)
        filled = of.unit.filled(start, input.new_empty(input.shape[1], recurrent.shape[1]))
        work = Work(projected, recurrent, weights.of_units, filled, lengths, ctx.reverse)
        output, final = reference(of.unit, work)
        return output, *(part[None] for part in final)

    return gradients_again(run, given, ctx.needs_input_grad[3:], gradients)
