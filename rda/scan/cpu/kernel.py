"""The compiled kernel behind the interface of `rda.scan.kernels.Kernel`."""

import ctypes
import functools
from contextlib import nullcontext

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.scan.cpu.build import BuildError, load
from rda.scan.kernels import FinalGradient, Kept, Trace, output_is_average
from rda.scan.memory import empty

ATTENTION_CODES = {"exp": 0, "relu": 1, "softplus": 2, "sigmoid": 3}


def _structure(name: str, **groups: str) -> type[ctypes.Structure]:
    kinds = {"pointers": ctypes.c_void_p, "long": ctypes.c_int64, "int": ctypes.c_int32}
    fields = [(field, kinds[kind]) for kind, names in groups.items() for field in names.split()]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


# The fields have the order of the structs in kernel.cpp.
Sizes = _structure(
    "Sizes",
    long="time batch units inputs blocks",
    int="attention hidden_tanh output_tanh reverse threads",
)
Forward = _structure(
    "Forward",
    pointers="input input_weight bias weight r0 l0 lengths output r l averages saved slopes",
)
Backward = _structure(
    "Backward",
    pointers="d_output d_r d_l weight r0 output averages saved slopes lengths "
    "d_projected d_r0 d_l0",
)


@functools.cache
def library() -> ctypes.CDLL | str:
    """The compiled kernel, or the reason why there is none; found out once per process."""
    try:
        return load()
    except BuildError as error:
        return str(error)


def obstacle() -> str | None:
    """Why there is no kernel, or None."""
    found = library()
    return found if isinstance(found, str) else None


products = nullcontext
takes_no_start = False


def forward(
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
    assert start is not None
    time, batch, units = input.shape[0], input.shape[1], weight.shape[1]
    output = empty(input, time, batch, units)
    r, l = (start.r.new_empty(1, batch, units) for _ in range(2))
    averages, saved, slopes = (empty(input, 0) for _ in range(3))
    if keep:
        saved = empty(input, time, batch, choices.input_blocks * units)
        if not output_is_average(choices):
            averages = empty(input, time, batch, units)
        if choices.attention != "exp":
            slopes = empty(input, time, batch, units)
    tensors = (
        *(input, input_weight, bias, weight, *start, lengths),
        *(output, r, l, averages, saved, slopes),
    )
    _call("forward", Forward, tensors, input, weight, choices, reverse)
    return Trace(output, r, l, averages, saved, slopes)


def backward(
    d_output: Tensor,
    d_final: FinalGradient,
    weight: Tensor,
    r0: Tensor | None,
    kept: Kept,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    assert r0 is not None
    d_projected = empty(r0, *kept.saved.shape)
    d_r0, d_l0 = torch.empty_like(r0), torch.empty_like(r0)
    given = (d_output, *d_final.filled(r0), weight, r0, *kept, lengths)
    _call(
        "backward", Backward, (*given, d_projected, d_r0, d_l0), kept.saved, weight, choices,
        reverse,
    )  # fmt: skip
    return d_projected, d_r0, d_l0


def _kernel() -> ctypes.CDLL:
    found = library()
    if isinstance(found, str):
        raise BuildError(found)
    return found


def _call(
    name: str,
    structure: type[ctypes.Structure],
    tensors: tuple[Tensor | None, ...],
    sequence: Tensor,
    weight: Tensor,
    choices: Choices,
    reverse: bool,
) -> None:
    sizes = Sizes(
        *sequence.shape[:2],
        weight.shape[1],
        sequence.shape[2],
        choices.input_blocks,
        ATTENTION_CODES[str(choices.attention)],
        choices.hidden == "tanh",
        choices.output == "tanh",
        reverse,
        torch.get_num_threads(),
    )
    pointers = structure(*(None if x is None or not x.numel() else x.data_ptr() for x in tensors))
    scalar = "double" if sequence.dtype == torch.float64 else "float"
    function = getattr(_kernel(), f"rda_{name}_{scalar}")
    if function(ctypes.byref(pointers), ctypes.byref(sizes)) != 0:
        raise MemoryError(f"no memory to pack the weights of {weight.shape[1]} units")
