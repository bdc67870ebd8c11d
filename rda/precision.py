"""The dtype of the matrix products, and the dtype of the state."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Precision = Literal["tf32", "fp32", "bf16"]
"""How an engine multiplies matrices. In "fp32" it multiplies in the dtype of the state."""


def stored_dtype(precision: Precision, state: torch.dtype) -> torch.dtype:
    """The dtype in which sequences are stored and multiplied: the state's, or bfloat16."""
    return torch.bfloat16 if precision == "bf16" else state


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of r and l: an average over many steps needs at least float32."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def in_dtype(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in this dtype. If it has it already, this is quicker than `to`."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def autocast_dtype(input: Tensor) -> torch.dtype | None:
    """The dtype that autocast asks for on the input's device, or None if it is off."""
    kind = input.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


def autocast_casts(input: Tensor) -> bool:
    """Whether autocast casts this input: it leaves float64 and integers alone."""
    castable = input.is_floating_point() and input.dtype != torch.float64
    return castable and autocast_dtype(input) is not None


def compute_dtype(input: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype of the products: autocast's if it is on, which leaves float64 alone."""
    wanted = autocast_dtype(input)
    return weight.dtype if wanted is None or weight.dtype == torch.float64 else wanted


def autocast_off(input: Tensor) -> AbstractContextManager[object]:
    """A context in which autocast is off, because all dtypes are already chosen."""
    if autocast_dtype(input) is None:
        return nullcontext()
    return torch.autocast(input.device.type, enabled=False)


def computing_in(dtype: torch.dtype) -> AbstractContextManager[object]:
    """A context in which comparisons and plain numbers alone give numbers of this dtype.

    torch computes `where(x > 0, 0.1, 0.2)` and `0.1 * (x > 0)` in its default dtype.
    """
    return nullcontext() if dtype == torch.get_default_dtype() else _ComputingIn(dtype)


class _ComputingIn(TorchFunctionMode):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        found = function(*arguments, **(options or {}))
        tensors = [each for each in arguments if isinstance(each, Tensor)]
        if (
            not (isinstance(found, Tensor) and found.is_floating_point())
            or {each.dtype for each in tensors} != {torch.bool}
            or not all(isinstance(each, Tensor | int | float) for each in arguments)
        ):
            return found
        first = 1 if function is torch.where else 0  # the condition stays one
        numbers = [torch.as_tensor(each, dtype=self.dtype) for each in arguments[first:]]
        return function(*arguments[:first], *numbers, **(options or {}))
