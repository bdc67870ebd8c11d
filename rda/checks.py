"""Checks of the arguments of cells and layers.

They raise the exception types that nn.LSTM raises, with the expected and the given shape.
"""

import numbers
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from rda.precision import autocast_casts, state_dtype
from rda.scan.tracing import check_allocated


def check_size(name: str, value: object) -> None:
    """A positive int."""
    if not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{name} must be greater than zero, got {value}")


def check_flag(name: str, value: object) -> None:
    """A bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


def check_dtype(dtype: object) -> None:
    """A real floating point dtype, or None."""
    if dtype is None:
        return
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype should be a torch.dtype, got: {type(dtype).__name__}")
    if not dtype.is_floating_point:
        raise RuntimeError(f"dtype should be a floating point dtype, got {dtype}")


def check_dropout(dropout: object, num_layers: int) -> None:
    """A probability. With a single layer it has no effect, which is a warning as in nn.LSTM."""
    is_number = isinstance(dropout, numbers.Real) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1], the probability of an element "
            f"being zeroed, got {dropout!r}"
        )
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero "
            f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )


def check_input(input: object, weight: Tensor, ranks: tuple[int, int], owner: str) -> None:
    """A tensor of one of two ranks, with the dtype, device and feature size of the weight."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{owner}: input should be a Tensor, got: {type(input).__name__}")
    if input.dim() not in ranks:
        raise ValueError(
            f"{owner}: Expected input to be {ranks[0]}D or {ranks[1]}D, got {input.dim()}D "
            f"instead, with shape {tuple(input.shape)}"
        )
    check_features(input, weight, owner)


def check_features(input: Tensor, weight: Tensor, owner: str) -> None:
    """The feature size, dtype (unless autocast casts it) and device of the weight."""
    if input.shape[-1] != weight.shape[1]:
        raise RuntimeError(
            f"{owner}: input.size(-1) must be equal to input_size. Expected {weight.shape[1]}, "
            f"got {input.shape[-1]} in an input of shape {tuple(input.shape)}"
        )
    if input.dtype != weight.dtype and not autocast_casts(input):
        raise ValueError(
            f"{owner}: input dtype ({input.dtype}) does not match weight dtype "
            f"({weight.dtype}). Convert input: input.to({weight.dtype})"
        )
    if input.device != weight.device:
        raise RuntimeError(
            f"{owner}: Input and parameter tensors are not at the same device, found input "
            f"tensor at {input.device} and parameter tensor at {weight.device}"
        )


def check_state(
    state: object,
    names: Sequence[str],
    expected: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    owner: str,
) -> tuple[Tensor, ...]:
    """Tensors of the expected shape on the input's device, in its dtype or the state's."""
    if not isinstance(state, tuple | list) or len(state) != len(names):
        given = type(state).__name__
        if isinstance(state, tuple | list):
            given = f"a {given} of {len(state)}"
        wanted = {1: "a tensor", 2: "a pair of tensors"}.get(len(names), f"{len(names)} tensors")
        raise RuntimeError(f"{owner}: state should be {wanted} ({', '.join(names)}), got {given}")
    allowed = (dtype, state_dtype(dtype))
    for name, part in zip(names, state, strict=True):
        if not isinstance(part, Tensor):
            raise TypeError(f"{owner}: state {name} should be a Tensor, got: {type(part).__name__}")
        if tuple(part.shape) != tuple(expected):
            raise RuntimeError(
                f"{owner}: Expected state {name} of size {tuple(expected)}, got {tuple(part.shape)}"
            )
        if part.dtype not in allowed:
            raise RuntimeError(
                f"{owner}: Expected state {name} of dtype "
                f"{' or '.join(map(str, dict.fromkeys(allowed)))}, got {part.dtype}"
            )
        if part.device != device:
            raise RuntimeError(
                f"{owner}: Input and state tensors are not at the same device, found input "
                f"tensor at {device} and state {name} at {part.device}"
            )
        # The scan checks its tensors too, but an RDA takes the logarithm of a weight before it.
        check_allocated(part, f"{owner}: state {name}")
    return tuple(state)
