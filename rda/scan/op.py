"""The operators `rda::scan` and `rda::scan_backward`, as torch knows them.

Here are their schemas, their implementations and what they return for fake tensors. The derivative
is in `rda.scan.fused`, the work itself in `rda.scan.kernels`.
"""

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.precision import state_dtype
from rda.scan.kernels import KERNELS, Kept, run_backward, run_forward, stored_dtype

# The engine `graph` has buffers of its own, which torch.compile must not put into a CUDA graph.
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
        input, input_weight, bias, recurrent_weight, state_from(r0, l0), choices, lengths, reverse,
        keep, engine,
    )  # fmt: skip


def state_from(r: Tensor | None, l: Tensor | None) -> LogState | None:
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
    layout = KERNELS[engine]().layout(choices)
    saved = (time, batch, layout.saved * units)
    wide = state_dtype(input.dtype)
    dtype = stored_dtype(engine, wide)
    keeps_averages = layout.averages or input.dtype != dtype
    return (
        input.new_empty(sequence),
        input.new_empty((1, batch, units), dtype=wide),
        input.new_empty((1, batch, units), dtype=wide),
        input.new_empty(sequence if keep and keeps_averages else 0, dtype=dtype),
        input.new_empty(saved if keep else 0, dtype=dtype),
        input.new_empty(sequence if keep and layout.slopes else 0, dtype=dtype),
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
    # An op returns tensors, so an empty one stands for a gradient that there is not.
    return tuple(
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
