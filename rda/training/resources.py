"""The device a run is trained on, and what is said when its memory is not enough."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class DeviceError(ValueError):
    """A device that is not there or cannot be used; the message says why."""


class NotEnoughMemoryError(MemoryError):
    """These sizes need more memory than there is."""


def find_device(name: str) -> torch.device:
    """The device of this name, tried out; "auto" is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
        torch.Generator(device)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise DeviceError(f"device {name!r} cannot be used: {reason}") from error
    return device


def check_precision(unit: str, precision: str, device: torch.device) -> None:
    """Raise where torch cannot run this unit in this precision."""
    if unit != "LSTM" or precision != "bfloat16" or device.type != "cpu":
        return
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise DeviceError(
            "LSTM in bfloat16 cannot be trained on this CPU: torch's LSTM needs AVX-512 for it; "
            "use precision float32"
        )


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turn every form of "out of memory" into a NotEnoughMemoryError."""
    try:
        yield
    except NotEnoughMemoryError:
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise NotEnoughMemoryError("these sizes need more memory than there is") from error
    except RuntimeError as error:
        wanted = _refused(error)
        if wanted is None:
            raise
        raise NotEnoughMemoryError(f"these sizes need more memory than there is{wanted}") from error


def _refused(error: RuntimeError) -> str | None:
    """How much memory torch's CPU allocator refused; None where the error is another one.

    On a CPU torch has no exception of its own for this, only these two messages of RuntimeErrors.
    """
    message = str(error)
    if "Storage size calculation overflowed" in message:
        return ""
    if "DefaultCPUAllocator: can't allocate memory" not in message:
        return None
    wanted = re.search(r"allocate [\d.]+ \w+", message)
    return f": could not {wanted[0]}" if wanted else ""
