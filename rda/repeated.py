"""Single steps like earlier ones, which a compiled kernel can run without further questions.

A step of a small cell takes a few microseconds, and the checks, the choice of an engine and what
else precedes it take ten times as long. All of that depends on what the tensors look like, not on
their values, so it is done once in a process for each look.
"""

from typing import Any

import torch
from torch.autograd import forward_ad

from rda.precision import state_dtype
from rda.scan.engines import ENGINES
from rda.scan.passes import Kernel, Weights
from rda.scan.tracing import PLAIN_TYPES
from rda.units.known import derived

Look = tuple[Any, ...]
MOST = 4096
"""Looks that are remembered."""

_kernels: dict[Look, Kernel] = {}


def look_of(key: str, input: Any, weights: Weights, state: Any) -> Look | None:
    """What the tensors of a step look like; None where a kernel cannot take them as they are."""
    if (
        torch.compiler.is_compiling()
        or torch.is_autocast_enabled("cpu")
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.maybe_current_level() is not None
        or forward_ad._current_level >= 0
        or not (state is None or (isinstance(state, tuple) and len(state) == 2))
    ):
        return None
    found: list[Any] = [key]
    dtype = None
    for tensor in (input, *weights[:3], *(state or ())):
        if tensor is None:
            found.append(None)
            continue
        if (
            type(tensor) not in PLAIN_TYPES
            or tensor.dtype is not (dtype := dtype or tensor.dtype)
            or not tensor.is_cpu
            or not tensor.is_contiguous()
            or tensor.is_neg()
            or not tensor.data_ptr()
        ):
            return None
        found.append(tensor.shape)
    return (dtype, *found)


def kernel_of(look: Look | None) -> Kernel | None:
    """The kernel that ran a step of this look before."""
    return _kernels.get(look) if look is not None else None


def remember(look: Look | None, engine: str, key: str, dtype: torch.dtype) -> None:
    """A step of this look has passed all checks and run in this engine."""
    if look is None or engine != "cpu" or dtype != state_dtype(dtype):
        return
    if derived(key).orders != (None, None):  # the kernel reads the gates in another order
        return
    if len(_kernels) >= MOST:
        _kernels.clear()
    _kernels[look] = ENGINES[engine].kernel(key, dtype, "fp32")
