"""Checks of the scan's tensors. Errors name the tensor, the expected and the given shape."""

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.precision import state_dtype
from rda.scan.tracing import check_allocated, is_plain


def check_type(name: str, value: object, kind: type) -> None:
    """An instance of the class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} should be a {kind.__name__}, got: {type(value).__name__}")


def check_input(
    input: Tensor,
    recurrent_weight: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    choices: Choices,
) -> None:
    """Matching shapes, one floating point dtype, one device."""
    if input.dim() != 3 or input.shape[0] == 0:
        raise RuntimeError(
            "input should be (time, batch, features) with at least one step, "
            f"got {tuple(input.shape)}"
        )
    if recurrent_weight.dim() != 2 or recurrent_weight.shape[1] == 0:
        raise RuntimeError(
            f"recurrent_weight should be ({choices.recurrent_blocks} * hidden, hidden), "
            f"got {tuple(recurrent_weight.shape)}"
        )
    time, batch, features = input.shape
    units = recurrent_weight.shape[1]
    projected = choices.input_blocks * units
    expected: list[tuple[str, Tensor, tuple[int, ...]]] = [
        ("recurrent_weight", recurrent_weight, (choices.recurrent_blocks * units, units))
    ]
    if input_weight is not None:
        check_type("input_weight", input_weight, Tensor)
        if features == 0:
            raise RuntimeError(f"input should have at least one feature, got {tuple(input.shape)}")
        expected.append(("input_weight", input_weight, (projected, features)))
    else:
        expected.append(("input", input, (time, batch, projected)))
    if bias is not None:
        check_type("bias", bias, Tensor)
        if input_weight is None:
            raise ValueError("bias should come together with input_weight: add it to the input")
        expected.append(("bias", bias, (projected,)))
    dtype, device = input.dtype, input.device
    for name, tensor, shape in expected:
        if tensor.shape != shape:
            raise RuntimeError(
                f"{name} should be {shape} for {units} units with "
                f"{choices.input_blocks} blocks, got {tuple(tensor.shape)}"
            )
        if not dtype.is_floating_point or tensor.dtype != dtype:
            raise ValueError(
                f"{name} and input should have one floating point dtype, "
                f"got {tensor.dtype} and {dtype}"
            )
        if tensor.device != device:
            raise RuntimeError(
                f"{name} and input should be on one device, got {tensor.device} and {device}"
            )


def check_state(state: LogState, input: Tensor, hidden_size: int) -> None:
    """Two tensors (batch, hidden) in the dtype of the state, on the device of the input."""
    expected = (input.shape[1], hidden_size)
    dtype = state_dtype(input.dtype)
    check_type("state", state, tuple)
    if len(state) != 2:
        raise RuntimeError(f"state should be two tensors (r, l), got a tuple of {len(state)}")
    for name, part in zip(("r", "l"), state, strict=True):
        check_type(f"state.{name}", part, Tensor)
        if tuple(part.shape) != expected:
            raise RuntimeError(f"state.{name} should be {expected}, got {tuple(part.shape)}")
        if part.dtype != dtype:
            raise ValueError(f"state.{name} should be {dtype}, got {part.dtype}")
        if part.device != input.device:
            raise RuntimeError(f"state.{name} should be on {input.device}, found on {part.device}")


def check_lengths(lengths: Tensor, input: Tensor) -> None:
    """One integer for each row, from 0 to the number of steps."""
    check_type("lengths", lengths, Tensor)
    check_allocated(lengths, "lengths")
    check_allocated(input, "input")  # the mask reads it before an engine checks it
    if tuple(lengths.shape) != (input.shape[1],):
        raise RuntimeError(
            f"lengths should be ({input.shape[1]},), one a row, got {tuple(lengths.shape)}"
        )
    if lengths.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"lengths should be int32 or int64, got {lengths.dtype}")
    # Reading values on a GPU would wait for it, and while tracing there are no values.
    if lengths.device.type == "cpu" and is_plain(lengths) and lengths.numel():
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 0 or longest > input.shape[0]:
            raise ValueError(
                f"lengths should be from 0 to {input.shape[0]}, "
                f"got values from {shortest} to {longest}"
            )
