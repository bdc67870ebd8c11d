"""The work inside the operator: the kernel of an engine, and the matrix products around it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState, no_history
from rda.precision import in_dtype, state_dtype
from rda.scan.tracing import check_allocated


class Trace(NamedTuple):
    """The results of a fused forward pass. Tensors that are not needed are empty."""

    output: Tensor  # o of every step, (time, batch, hidden), zero beyond a row's end
    r: Tensor  # the final state, (1, batch, hidden)
    l: Tensor
    averages: Tensor  # r of every step, unless the output is the same
    saved: Tensor  # (time, batch, blocks * hidden): u, tanh g, p, sigma(-gamma~)
    slopes: Tensor  # d log a / d a~ of every step, unless it is 1 everywhere


class Kept(NamedTuple):
    """The part of a `Trace` that the backward pass needs."""

    output: Tensor
    averages: Tensor
    saved: Tensor
    slopes: Tensor


class Layout(NamedTuple):
    """Which parts of a `Trace` a kernel fills for the backward pass."""

    averages: bool
    saved: int  # blocks of (time, batch, hidden)
    slopes: bool


def plain_layout(choices: Choices) -> Layout:
    """That of the kernels that are written by hand."""
    return Layout(not output_is_average(choices), choices.input_blocks, choices.attention != "exp")


class FinalGradient(NamedTuple):
    """The gradient of the final state. None means zero."""

    r: Tensor | None
    l: Tensor | None

    def filled(self, like: Tensor) -> LogState:
        return LogState(
            *(torch.zeros_like(like) if part is None else part.view_as(like) for part in self)
        )


def from_nothing(input: Tensor, units: int) -> LogState:
    """The start of a scan without a state."""
    shape = (input.shape[1], units)
    return no_history(input.new_zeros(shape, dtype=state_dtype(input.dtype)))


class Kernel(Protocol):
    """The recurrence itself. Tensors are contiguous and in `stored_dtype`, states in `state_dtype`.

    A start of None means no history. A kernel without `takes_no_start` never gets None.
    """

    takes_no_start: bool

    def layout(self, choices: Choices) -> Layout:
        """What `forward` keeps. Where it keeps no averages, they can hold an output in float32."""

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
        """Without an input weight the input is already projected. `keep` fills the whole trace."""

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
        """The gradients of projected, r0 and l0. The last two may be None if there was no r0."""

    def products(self) -> AbstractContextManager[None]:
        """A context in which torch's matrix products have the precision of this kernel."""


KERNELS: dict[str, Callable[[], Kernel]] = {}
"""Kernels by engine. They are looked up at run time, never while tracing."""


def stored_dtype(engine: str, state: torch.dtype) -> torch.dtype:
    """The dtype in which an engine stores and multiplies sequences: the state's, or bfloat16."""
    return torch.bfloat16 if engine.endswith(" bf16") else state


def run_forward(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    start: LogState | None,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    keep: bool,
    engine: str,
) -> Trace:
    """The forward pass, in the dtype of the engine and not of the input."""
    kernel = KERNELS[engine]()
    dtype = stored_dtype(engine, state_dtype(input.dtype))
    if start is not None:
        start = LogState(*map(in_memory, start))
    elif not kernel.takes_no_start:
        start = from_nothing(input, recurrent_weight.shape[1])
    trace = kernel.forward(
        _ready(input, dtype),
        None if input_weight is None else _ready(input_weight, dtype),
        None if bias is None else _ready(bias, dtype),
        _ready(recurrent_weight, dtype),
        start,
        choices,
        _ready_lengths(lengths, input),
        reverse,
        keep,
    )
    if trace.output.dtype == input.dtype:
        return trace
    averages = trace.averages
    if keep and not kernel.layout(choices).averages:
        averages = trace.output
    return trace._replace(output=trace.output.to(input.dtype), averages=averages)


def _ready(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return in_memory(in_dtype(tensor, dtype))


def in_memory(tensor: Tensor) -> Tensor:
    """The tensor's values in contiguous memory, because kernels read them by their address.

    A negation that torch only notes in a bit (`z.conj().imag`) and a zero tensor without storage
    are written out. Freed memory is refused: its address is null.
    """
    if tensor.is_neg() or not tensor.data_ptr():
        check_allocated(tensor)
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor.contiguous()


def _ready_lengths(lengths: Tensor | None, input: Tensor) -> Tensor | None:
    # In traced code nobody has checked the values. Without the clamp, the kernel could read
    # outside its buffers.
    if lengths is None:
        return None
    return lengths.to(input.device, torch.int64).clamp(0, input.shape[0]).contiguous()


def output_is_average(choices: Choices) -> bool:
    """Whether the output of a step is r itself, which is then not stored twice."""
    return choices.hidden == choices.output == "identity"


def run_backward(
    d_output: Tensor,
    d_r: Tensor | None,
    d_l: Tensor | None,
    input: Tensor,
    input_weight: Tensor | None,
    recurrent_weight: Tensor,
    r0: Tensor | None,
    kept: Kept,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    needs_input: bool,
    engine: str,
) -> tuple[Tensor | None, ...]:
    """Gradients of input, input weight, bias, recurrent weight, r0 and l0, or None."""
    kernel = KERNELS[engine]()
    dtype = stored_dtype(engine, state_dtype(input.dtype))
    if kept.output.dtype != dtype:
        averages = kept.averages
        if kernel.layout(choices).averages:
            kept = kept._replace(output=choices.f_o(choices.f_h(averages)))
        else:
            kept = kept._replace(output=averages, averages=averages.new_empty(0))
    lengths = _ready_lengths(lengths, input)
    start = None if r0 is None else in_memory(r0)
    if start is None and not kernel.takes_no_start:
        start = from_nothing(input, recurrent_weight.shape[1]).r
    d_projected, d_r0, d_l0 = kernel.backward(
        _ready(d_output, dtype),
        FinalGradient(*(None if part is None else in_memory(part) for part in (d_r, d_l))),
        _ready(recurrent_weight, dtype),
        start,
        kept,
        choices,
        lengths,
        reverse,
    )
    if r0 is None:
        d_r0 = d_l0 = None
    h = _hidden_sequence(kept, choices)
    with kernel.products():
        d_gates = d_projected[..., h.shape[-1] :]
        h0 = None if r0 is None else choices.f_h(r0)
        d_weight = recurrent_gradient(d_gates, h, h0, lengths, reverse)
        if input_weight is None:
            return d_projected, None, None, d_weight, d_r0, d_l0
        flat = d_projected.flatten(0, 1)
        d_input_weight, d_bias = projection_gradients(flat, _ready(input, dtype).flatten(0, 1))
        d_input = d_projected @ _ready(input_weight, dtype) if needs_input else None
    return d_input, d_input_weight, d_bias, d_weight, d_r0, d_l0


def projection_gradients(d_projected: Tensor, input: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the input weight and the bias: d_projected.t() @ input, and a sum of rows.

    The sum is computed as a product with ones, because torch's own sum is slower on a CPU. On a GPU
    torch's sum needs a buffer, so it is used only for small tensors. With few input columns BLAS is
    several times faster with the operands exchanged.
    """
    if d_projected.is_cuda and d_projected.numel() < 2**24:
        return d_projected.t() @ input, d_projected.sum(0)
    columns = input.shape[1]
    if d_projected.is_cuda and columns >= 32:
        # Eight columns of ones keep rows of bfloat16 aligned, and d_projected is read only once.
        both = d_projected.t() @ torch.cat((input, input.new_ones(len(input), 8)), dim=1)
        return both[:, :columns].contiguous(), both[:, columns].clone()
    ones = input.new_ones(len(input), 1)
    if columns >= 32:
        return d_projected.t() @ input, (ones.t() @ d_projected).flatten()
    both = torch.cat((input, ones), dim=1).t() @ d_projected
    return both[:-1].t().contiguous(), both[-1].clone()


def _hidden_sequence(kept: Kept, choices: Choices) -> Tensor:
    """h of every step, from the tensor that holds it or can give it."""
    if choices.output == "identity":
        return kept.output
    return kept.averages if choices.hidden == "identity" else choices.f_h(kept.averages)


def _rows(sequence: Tensor, first: int) -> Tensor:
    """The rows of all steps except one, starting with step `first`, as a matrix.

    It is a single view, because every view costs time. The rows are evenly spaced. The stride of
    a batch of one is not used, because torch may report any number for it.
    """
    steps, batch, columns = sequence.shape
    step = sequence.stride(0)
    shape, strides = ((steps - 1) * batch, columns), (step // max(batch, 1), 1)
    return sequence.as_strided(shape, strides, sequence.storage_offset() + first * step)


def recurrent_gradient(
    d_gates: Tensor, h: Tensor, h0: Tensor | None, lengths: Tensor | None, reverse: bool
) -> Tensor:
    """The gradient of the recurrent weight: d_gates times the h before each step, summed.

    `h0` is the h before the first step. None means zeros.
    """
    total = _rows(d_gates, 0 if reverse else 1).t() @ _rows(h, 1 if reverse else 0)
    if h0 is None:
        return total
    if not reverse:
        first = d_gates[0]
    elif lengths is None:
        first = d_gates[-1]
    else:
        rows = torch.arange(len(lengths), device=lengths.device)
        first = d_gates[(lengths - 1).clamp(min=0), rows]
    return total.addmm_(first.t(), h0.to(h.dtype))
