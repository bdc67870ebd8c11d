"""Which dtype the products run in, and which the state is kept in."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which r and l are kept: an average of many steps needs float32 at least."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def in_dtype(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor itself where that is its dtype, for which `to` takes its time."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def autocast_dtype(input: Tensor) -> torch.dtype | None:
    """The dtype that autocast asks for on the input's device, or None where it is off."""
    kind = input.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


def autocast_casts(input: Tensor) -> bool:
    """Whether autocast settles this input's dtype: it leaves float64 and integers alone."""
    castable = input.is_floating_point() and input.dtype != torch.float64
    return castable and autocast_dtype(input) is not None


def compute_dtype(input: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype of the products: autocast's where it is on (it leaves float64 alone)."""
    wanted = autocast_dtype(input)
    return weight.dtype if wanted is None or weight.dtype == torch.float64 else wanted


def autocast_off(input: Tensor) -> AbstractContextManager[object]:
    """Within it nothing is cast behind our back: the dtypes were settled on the way in."""
    if autocast_dtype(input) is None:
        return nullcontext()
    return torch.autocast(input.device.type, enabled=False)
