"""Whether tensors are traced, transformed, differentiated, or plain values in memory."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

PLAIN_TYPES = (Tensor, nn.Parameter)
Function = TypeVar("Function", bound=Callable[..., object])


def constant_when_traced(function: Function) -> Function:
    """Let torch.compile call the function while it traces, and record the result as a constant.

    This is torch.compiler.assume_constant_result, which imports torch._dynamo: two seconds at
    every start, for people who never compile too.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def is_plain(tensor: Tensor) -> bool:
    """Whether this tensor has values, and nothing records what is done with it."""
    return (
        type(tensor) in PLAIN_TYPES
        and not torch.compiler.is_compiling()
        and torch._C._get_tracing_state() is None
        and not torch._C._len_torch_dispatch_stack()
    )


def is_differentiated(tensors: Iterable[Tensor | None]) -> bool:
    """Whether autograd will ask for the gradient of one of these."""
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def is_traced_for_later() -> bool:
    """Whether torch.export or torch.jit.trace records a program that will run in any grad mode."""
    return torch.compiler.is_exporting() or torch._C._get_tracing_state() is not None


def is_transformed(tensors: Iterable[Tensor]) -> bool:
    """Whether this is inside torch.func (vmap, jvp, ...) or a tensor has a forward gradient."""
    forward = forward_ad._current_level >= 0
    if forward and torch.compiler.is_compiling():
        return True  # torch.compile cannot trace the questions below in forward mode
    if torch._C._functorch.maybe_current_level() is not None:
        return True
    return forward and any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def is_batched(tensors: Iterable[Tensor | None]) -> bool:
    """Whether one of these stands for several: torch.autograd.grad with `is_grads_batched`.

    Such a tensor is only known by having no storage of its own.
    """
    return any(x is not None and not torch._C._has_storage(x) for x in tensors)


def check_allocated(tensor: Tensor, name: str = "a tensor") -> None:
    """Raise for freed memory (`untyped_storage().resize_(0)`), where torch itself may crash."""
    if (
        not torch.compiler.is_compiling()
        and type(tensor) in PLAIN_TYPES
        and torch._C._has_storage(tensor)
        and not tensor.data_ptr()
        and not (tensor.is_meta or tensor._is_zerotensor() or tensor.numel() == 0)
        and not is_transformed((tensor,))
    ):
        raise RuntimeError(
            f"{name} should be allocated, got shape {tuple(tensor.shape)} with its storage freed"
        )
