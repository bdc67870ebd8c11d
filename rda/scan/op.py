"""The operator `rda::scan`: one direction of one layer of any unit over time, differentiable.

Because it is an operator of torch, torch.compile sees a single node and never unrolls time. Second
derivatives and batched gradients are computed by the reference instead.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rda.precision import Precision, autocast_off, in_dtype, state_dtype, stored_dtype
from rda.scan import reference
from rda.scan.again import gradients_again
from rda.scan.engines import ENGINES
from rda.scan.passes import Call, Kernel, Results, Weights
from rda.scan.products import in_memory, projection_gradients, recurrent_gradient
from rda.scan.ragged import running
from rda.scan.tracing import is_batched, is_differentiated, is_plain, is_traced_for_later
from rda.units.known import derived, find

# The engine `graph` has buffers of its own, which torch.compile must not put into a CUDA graph.
_TAGS = (torch.Tag.cudagraph_unsafe,)


def scan(call: Call, engine: str, precision: Precision) -> tuple[Tensor, ...]:
    """The output of every step, (time, batch, hidden), and the final state, (1, batch, hidden)."""
    results = 1 + len(call.unit.parts)
    if not is_plain(call.input):
        # A program that is traced for later may run without gradients, so it keeps nothing for a
        # backward pass. If there is one after all, it runs the forward pass again.
        keep = is_differentiated(call.tensors) and not is_traced_for_later()
        found = scan_op(*_of_op(call), keep, engine, precision)
        return tuple(found[:results])
    if is_differentiated(call.tensors):
        outputs: tuple[Tensor, ...] = _PlainScan.apply(  # type: ignore[no-untyped-call]
            call, engine, precision, *call.tensors
        )
        return outputs
    # Without gradients nothing has to be registered with autograd, which saves time at each step.
    return tuple(run_forward(call, engine, precision, keep=False))


# ---------------------------------------------------------------- the passes themselves


def run_forward(call: Call, engine: str, precision: Precision, keep: bool) -> list[Tensor]:
    """The output, the final state, and what is kept for the backward pass."""
    kernel, ready = prepared(call, engine, precision)
    results = kernel.forward(ready, keep)
    output = results.output
    kept = [*results.sequences, *results.saved]
    if output.dtype != call.input.dtype:
        kept.insert(0, output)
    found = [in_dtype(output, call.input.dtype), *results.state]
    return [*found, *kept] if keep else found


def run_backward(
    call: Call,
    kept: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    engine: str,
    precision: Precision,
    needs_input: bool,
) -> list[Tensor | None]:
    """The gradients of `call.tensors`. `kept` is the output and all that was kept beside it."""
    kernel, ready = prepared(call, engine, precision)
    of, weights, lengths, reverse = kernel.of, ready.weights, ready.lengths, call.reverse
    output, *others = kept if kept[0].dtype == ready.input.dtype else kept[1:]
    sequences = len(of.kept.sequences)
    results = Results(output, [], others[:sequences], others[sequences:])
    d_output, *d_final = (None if each is None else in_memory(each) for each in gradients)
    if d_output is None:
        d_output = torch.zeros_like(output)
    d_blocks, d_start = kernel.backward(ready, results, in_dtype(d_output, output.dtype), d_final)
    units, (x_only, both, h_only) = weights.recurrent.shape[1], map(len, of.gates)
    of_x, of_h = x_only + both, both + h_only
    d_x = d_blocks[..., : of_x * units]
    d_gates = d_blocks[..., x_only * units : (x_only + of_h) * units]
    h = of.hidden_of(output, results.sequences) if len(output) > 1 else output
    if lengths is not None and not any(h is each for each in (output, *results.sequences)):
        h = h.masked_fill(~running(lengths, h), 0.0)  # those are zero beyond a row's end
    h0 = of.first_hidden(ready.starts, output[0])
    x_order, h_order = of.definition_orders
    with ENGINES[engine].products(precision):
        d_recurrent = recurrent_gradient(d_gates, h, h0, lengths, reverse)
        d_weight = d_bias = None
        if weights.input is None:
            d_input: Tensor | None = reordered(d_x, x_order, -1).contiguous()
        else:
            d_input = d_x @ weights.input if needs_input else None
            d_weight, d_bias = projection_gradients(d_x.flatten(0, 1), ready.input.flatten(0, 1))
            d_weight, d_bias = (reordered(each, x_order, 0) for each in (d_weight, d_bias))
    d_own = [
        d_blocks[..., place * units : (place + 1) * units].sum((0, 1)) for place in of.weight_blocks
    ]
    d_start = d_start if call.start else []
    return [d_input, d_weight, d_bias, reordered(d_recurrent, h_order, 0), *d_start, *d_own]


def prepared(call: Call, engine: str, precision: Precision) -> tuple[Kernel, Call]:
    """The kernel, and the call as it takes it: in memory, in its dtype and order of gates."""
    wide = state_dtype(call.input.dtype)
    dtype = stored_dtype(precision, wide)
    kernel = ENGINES[engine].kernel(call.key, dtype, precision)
    x_order, h_order = kernel.of.orders
    input, weights = call.input, call.weights

    def stored(tensor: Tensor, order: tuple[int, ...] | None = None, dim: int = 0) -> Tensor:
        return in_memory(in_dtype(reordered(tensor, order, dim), dtype))

    lengths = call.lengths
    if lengths is not None:
        # In traced code nobody has checked the values. Without the clamp, the kernel could read
        # outside its buffers.
        lengths = lengths.to(input.device, torch.int64).clamp(0, len(input)).contiguous()
    projected = weights.input is None
    return kernel, call._replace(
        input=stored(input, x_order if projected else None, -1),
        weights=Weights(
            None if weights.input is None else stored(weights.input, x_order),
            None if weights.bias is None else stored(weights.bias, x_order),
            stored(weights.recurrent, h_order),
            tuple(in_memory(in_dtype(own, wide)) for own in weights.of_units),
        ),
        start=tuple(map(in_memory, call.start)),
        lengths=lengths,
    )


def reordered(tensor: Tensor, order: tuple[int, ...] | None, dim: int) -> Tensor:
    """The blocks of a dimension in another order; None leaves them as they are."""
    if order is None:
        return tensor
    blocks = tensor.chunk(len(order), dim)
    return torch.cat([blocks[place] for place in order], dim)


# ---------------------------------------------------------------- autograd


def _remember(
    ctx: Any, call: Call, kept: Sequence[Tensor], engine: str, precision: Precision
) -> None:
    """`ctx.blank` is the call without its tensors, which autograd keeps."""
    tensors = call.tensors
    ctx.save_for_backward(call.lengths, *tensors, *kept)
    ctx.blank = call.with_tensors([None] * len(tensors))._replace(lengths=None)
    ctx.count, ctx.engine, ctx.precision = len(tensors), engine, precision
    ctx.set_materialize_grads(False)


def _gradients(
    ctx: Any,
    gradients: Sequence[Tensor | None],
    needed: Sequence[bool],
    backward: Callable[..., Sequence[Tensor | None]],
) -> list[Tensor | None]:
    """The gradients of the call's tensors; `backward` is called as `run_backward` is."""
    lengths, *others = ctx.saved_tensors
    tensors, kept = others[: ctx.count], others[ctx.count :]
    call = ctx.blank.with_tensors(tensors)._replace(lengths=lengths)
    if torch.is_grad_enabled() or is_batched(gradients):
        return gradients_again(
            lambda *given: reference.scan(call.with_tensors(given)), tensors, needed, gradients
        )
    with autocast_off(call.input):
        found = backward(call, kept, gradients, ctx.engine, ctx.precision, needed[0])
    return [
        in_dtype(gradient, tensor.dtype) if gradient is not None and wanted else None
        for gradient, tensor, wanted in zip(found, tensors, needed, strict=True)
    ]


class _PlainScan(torch.autograd.Function):
    """The operator called directly: torch's dispatcher takes longer than a short sequence.

    Beside the call it takes its tensors, because autograd does not look into a call.
    """

    @staticmethod
    def forward(ctx: Any, call: Call, engine: str, precision: Precision, *_: Any) -> Any:
        output, *others = run_forward(call, engine, precision, keep=True)
        parts = len(call.unit.parts)
        _remember(ctx, call, (output, *others[parts:]), engine, precision)
        return output, *others[:parts]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        found = _gradients(ctx, gradients, ctx.needs_input_grad[3:], run_backward)
        return None, None, None, *found


# ---------------------------------------------------------------- the operator


def _of_op(call: Call) -> tuple[Any, ...]:
    """A call as the first arguments of the operators."""
    weights = call.weights
    return (
        call.input, weights.input, weights.bias, weights.recurrent, list(call.start),
        list(weights.of_units), call.lengths, call.key, call.reverse,
    )  # fmt: skip


def _call(arguments: Sequence[Any]) -> Call:
    """The inverse of `_of_op`."""
    input, input_weight, bias, recurrent, start, of_units, lengths, unit, reverse = arguments
    weights = Weights(input_weight, bias, recurrent, tuple(of_units))
    return Call(find(unit), unit, input, weights, tuple(start), lengths, reverse)


_CALL = (
    "Tensor input, Tensor? input_weight, Tensor? bias, Tensor recurrent_weight, Tensor[] start, "
    "Tensor[] of_units, Tensor? lengths, str unit, bool reverse"
)


def _forward(*arguments: Any) -> list[Tensor]:
    *of_call, keep, engine, precision = arguments
    return run_forward(_call(of_call), engine, precision, keep)


def _backward(*arguments: Any) -> list[Tensor]:
    *of_call, kept, gradients, engine, precision, needs_input = arguments
    call = _call(of_call)
    found = run_backward(call, kept, gradients, engine, precision, needs_input)
    # An operator returns tensors, so an empty one stands for a gradient that there is not.
    dtype = stored_dtype(precision, state_dtype(call.input.dtype))
    return [call.input.new_empty(0, dtype=dtype) if each is None else each for each in found]


scan_op = torch.library.custom_op(
    "rda::scan",
    _forward,
    mutates_args=(),
    tags=_TAGS,
    schema=f"({_CALL}, bool keep, str engine, str precision) -> Tensor[]",
)
scan_backward_op = torch.library.custom_op(
    "rda::scan_backward",
    _backward,
    mutates_args=(),
    tags=_TAGS,
    schema=f"({_CALL}, Tensor[] kept, Tensor?[] gradients, str engine, str precision, "
    "bool needs_input) -> Tensor[]",
)


@scan_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    *of_call, keep, engine, precision = arguments
    call = _call(of_call)
    input, units = call.input, call.weights.recurrent.shape[1]
    time, batch = input.shape[0], input.shape[1]
    wide = state_dtype(input.dtype)
    dtype = stored_dtype(precision, wide)
    sequence = (time, batch, units)
    found = [input.new_empty(sequence)]
    found += [input.new_empty((1, batch, units), dtype=wide) for _ in call.unit.parts]
    if keep:
        of = derived(call.key, precision == "bf16")
        shapes: list[tuple[int, ...]] = [sequence] * len(of.kept.sequences)
        blocks = ENGINES[engine].saved_blocks(of, precision)
        shapes += [(time, batch, count * units) for count in blocks]
        shapes = [sequence, *shapes] if dtype != input.dtype else shapes
        found += [input.new_empty(shape, dtype=dtype) for shape in shapes]
    return found


@scan_backward_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    *of_call, _, _, _, precision, needs_input = arguments
    call = _call(of_call)
    input, weights = call.input, call.weights
    dtype = stored_dtype(precision, state_dtype(input.dtype))
    projects = weights.input is not None
    of_products = (
        input.shape if needs_input or not projects else 0,
        0 if weights.input is None else weights.input.shape,
        0 if weights.input is None else weights.input.shape[:1],
        weights.recurrent.shape,
    )
    found = [input.new_empty(shape, dtype=dtype) for shape in of_products]
    found += [torch.empty_like(part) for part in call.start]
    return found + [torch.empty_like(own, dtype=dtype) for own in weights.of_units]


def _setup_context(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
    *of_call, keep, engine, precision = inputs
    call = _call(of_call)
    parts = len(call.unit.parts)
    _remember(ctx, call, (output[0], *output[1 + parts :]), engine, precision)
    ctx.mark_non_differentiable(*output[1 + parts :])
    ctx.kept = keep


def _backward_of_op(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    def through_the_op(
        call: Call, kept: Sequence[Tensor], gradients: Sequence[Any], *others: Any
    ) -> Any:
        if not ctx.kept:
            output, *rest = scan_op(*_of_op(call), True, ctx.engine, ctx.precision)
            kept = [output, *rest[len(call.unit.parts) :]]
        return scan_backward_op(*_of_op(call), list(kept), list(gradients), *others)

    wanted = ctx.needs_input_grad
    needed = [*wanted[:4], *(wanted[4] or []), *(wanted[5] or [])]
    results = 1 + len(ctx.blank.unit.parts)
    found = _gradients(ctx, gradients[:results], needed, through_the_op)
    own = 4 + len(ctx.blank.start)  # where the gradients of the unit's own weights begin
    return *found[:4], found[4:own], found[own:], *[None] * 6


scan_op.register_autograd(_backward_of_op, setup_context=_setup_context)
