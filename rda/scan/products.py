"""The matrix products around a kernel, and what they need of tensors."""

import torch
from torch import Tensor

from rda.scan.tracing import check_allocated


def in_memory(tensor: Tensor) -> Tensor:
    """The tensor's values in contiguous memory, because kernels read them by their address.

    A negation that torch only notes in a bit (`z.conj().imag`) and a zero tensor without storage
    are written out. Freed memory is refused: its address is null.
    """
    if tensor.is_neg() or not tensor.data_ptr():
        check_allocated(tensor)
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor.contiguous()


def projection_gradients(d_projected: Tensor, input: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the input weight and the bias: d_projected.t() @ input, and a sum of rows.

    The sum is computed as a product with ones, because torch's own sum is slower on a CPU. On a GPU
    torch's sum needs a buffer. So it is used only for small tensors. With few input columns BLAS is
    several times faster with the operands exchanged.
    """
    if d_projected.numel() < (2**24 if d_projected.is_cuda else 2**12):
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
    # `contiguous` would leave a single column with strides that DDP warns of.
    return both[:-1].t().clone(memory_format=torch.contiguous_format), both[-1].clone()


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
    if len(h) == 1 and h0 is not None and lengths is None:
        return d_gates[0].t() @ h0.to(h.dtype)
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
