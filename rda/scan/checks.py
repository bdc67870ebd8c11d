"""Checks of the scan's tensors. Errors name the tensor, the expected and the given shape."""

import torch
from torch import Tensor

from rda.precision import state_dtype
from rda.scan.passes import Call
from rda.scan.tracing import check_allocated, is_plain
from rda.units import Unit


def check_type(name: str, value: object, kind: type) -> None:
    """An instance of the class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} should be a {kind.__name__}, got: {type(value).__name__}")


def check_call(call: Call) -> None:
    """Matching shapes, one floating point dtype, one device."""
    input, weights, unit = call.input, call.weights, call.unit
    recurrent_weight, input_weight, bias = weights.recurrent, weights.input, weights.bias
    check_type("recurrent_weight", recurrent_weight, Tensor)
    inputs, recurrent = len(unit.inputs), len(unit.recurrent)
    if input.dim() != 3 or input.shape[0] == 0:
        raise RuntimeError(
            "input should be (time, batch, features) with at least one step, "
            f"got {tuple(input.shape)}"
        )
    if recurrent_weight.dim() != 2 or recurrent_weight.shape[1] == 0:
        raise RuntimeError(
            f"recurrent_weight should be ({recurrent} * hidden, hidden), "
            f"got {tuple(recurrent_weight.shape)}"
        )
    time, batch, features = input.shape
    units = recurrent_weight.shape[1]
    projected = inputs * units
    expected: list[tuple[str, Tensor, tuple[int, ...]]] = [
        ("recurrent_weight", recurrent_weight, (recurrent * units, units))
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
    if len(weights.of_units) != len(unit.weights):
        names = ", ".join(unit.weights) or "none"
        raise RuntimeError(f"weights should be {names}, got {len(weights.of_units)} of them")
    for name, own in zip(unit.weights, weights.of_units, strict=True):
        check_type(f"weights.{name}", own, Tensor)
        expected.append((f"weights.{name}", own, (units,)))
    dtype, device = input.dtype, input.device
    for name, tensor, shape in expected:
        if tensor.shape != shape:
            raise RuntimeError(
                f"{name} should be {shape} for {units} units with "
                f"{inputs} blocks, got {tuple(tensor.shape)}"
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


def check_state(state: object, unit: Unit, input: Tensor, units: int) -> None:
    """A tensor (batch, hidden) for each part, in the state's dtype, on the input's device."""
    expected = (input.shape[1], units)
    dtype = state_dtype(input.dtype)
    check_type("state", state, tuple)
    assert isinstance(state, tuple)
    names = [part.name for part in unit.parts]
    if len(state) != len(names):
        count = {1: "one tensor", 2: "two tensors"}.get(len(names), f"{len(names)} tensors")
        wanted = f"{count} ({', '.join(names)})"
        raise RuntimeError(f"state should be {wanted}, got a tuple of {len(state)}")
    for name, part in zip(names, state, strict=True):
        check_type(f"state.{name}", part, Tensor)
        if part.shape != expected:
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
