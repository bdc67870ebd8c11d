"""What all ways to run a unit on a GPU share: arguments, precision, compiling."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rda.scan.cuda import nvrtc
from rda.scan.cuda.driver import Module

PRODUCTS = {"tf32": 0, "fp32": 1, "bf16": 2}
SMALL = 32

Pointer = ctypes.c_void_p
Constants = tuple[tuple[str, int], ...]


class Sizes(ctypes.Structure):
    """As in functions.cu."""

    _fields_ = (("time", ctypes.c_int), ("batch", ctypes.c_int), ("reverse", ctypes.c_int))


class Pass(NamedTuple):
    """A unit over time, forward or backward: what an engine is asked to run."""

    direction: Literal["forward", "backward"]
    unit: str
    product: str
    constants: Constants
    """Of the unit's text."""
    projected: Tensor | None
    """Forward, what the input brings to each step."""
    weight: Tensor
    at: ctypes.Structure
    lengths: Tensor | None
    sizes: Sizes

    @property
    def is_forward(self) -> bool:
        return self.direction == "forward"

    @property
    def units(self) -> int:
        return self.weight.shape[1]

    @property
    def gates(self) -> int:
        return self.weight.shape[0] // self.weight.shape[1]

    def arguments(self) -> tuple[Any, ...]:
        """As a kernel for all steps takes them."""
        before = () if self.projected is None else (pointer(self.projected),)
        return (*before, pointer(self.weight), self.at, pointer(self.lengths), self.sizes)

    def queue(self, run: "Run") -> None:
        """On the weight's GPU, if there is anything to do."""
        if self.sizes.batch:
            with on_device(self.weight):
                run(self)


Run = Callable[[Pass], None]


def structure(name: str, fields: str) -> type[ctypes.Structure]:
    """A struct of pointers."""
    return type(name, (ctypes.Structure,), {"_fields_": [(f, Pointer) for f in fields.split()]})


def pointer(tensor: Tensor | None) -> Pointer:
    """To the tensor's numbers; null where there are none."""
    return Pointer(_address(tensor))


def pointers(*tensors: Tensor | None) -> Iterator[int]:
    """Of each, as a struct takes them."""
    return map(_address, tensors)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


class Layer(NamedTuple):
    """A layer that is to run on an input: what decides which engines can, and which is quickest."""

    device: torch.device
    dtype: torch.dtype
    units: int
    gates: int
    batch: int
    product: str

    @staticmethod
    def on(input: Tensor, units: int, gates: int, batch: int) -> "Layer":
        """With the precision that torch's switches ask for now."""
        dtype = input.dtype
        return Layer(input.device, dtype, units, gates, batch, product_for(dtype, units))


def obstacle(layer: Layer, oldest: int, without: str) -> str | None:
    """Why no kernel of ours can run on such an input, or None.

    `oldest` is the compute capability that is needed, `without` what older GPUs lack.
    """
    if layer.device.type != "cuda":
        return f"it runs on an NVIDIA GPU, and the tensors are on {layer.device.type}"
    if torch.version.hip is not None:
        return "it is written for NVIDIA's GPUs"
    if layer.dtype == torch.float64:
        return "it works in float32, and the tensors are float64"
    missing: str | None = _missing(layer.device, oldest, without)
    return missing


# Asked while torch.compile traces too, so that what it traces can run on this machine.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def capability(device: torch.device) -> tuple[int, int]:
    """Of the GPU; where there is none, one that can do everything."""
    return _capability(device)


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device) if torch.cuda.is_available() else (9, 0)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _missing(device: torch.device, oldest: int, without: str) -> str | None:
    return _found_missing(device, oldest, without)


@cache
def _found_missing(device: torch.device, oldest: int, without: str) -> str | None:
    major, minor = capability(device)
    if major < oldest:
        return f"it needs {without} (sm_{oldest}0), and this GPU is an sm_{major}{minor}"
    try:
        nvrtc.library()
    except nvrtc.CompileError as error:
        return str(error)
    return None


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """Where the tensor's GPU is the current one; free of charge where it is already."""
    index = tensor.device.index
    return nullcontext() if torch._C._cuda_getDevice() == index else torch.cuda.device(index)


def product_for(dtype: torch.dtype, units: int) -> str:
    """The precision of the products: torch's own for recurrent layers, bf16 for bf16.

    In a small layer nothing averages errors out, and float32 costs no time.
    """
    if units <= SMALL:
        return "fp32"
    if dtype == torch.bfloat16:
        return "bf16"
    return "tf32" if dtype == torch.float16 or _wanted_for_recurrent_layers() else "fp32"


def _wanted_for_recurrent_layers() -> bool:
    """Whether torch's switches allow tf32, the most particular one that is set."""
    if torch.compiler.is_compiling():
        switches = (torch.backends.cudnn.rnn, torch.backends.cudnn, torch.backends)
        found = (str(switch.fp32_precision) for switch in switches)
    else:
        names = (("cuda", "rnn"), ("cuda", "all"), ("generic", "all"))
        found = (_float32_precision(*name) for name in names)
    return next((value for value in found if value != "none"), "ieee") == "tf32"


# What is behind torch.backends' properties, ten times as quick; torch.compile follows those alone.
_float32_precision: Callable[[str, str], str] = torch._C._get_fp32_precision_getter


def products(product: str) -> AbstractContextManager[None]:
    """Where torch's own float32 products have the precision of the kernel's."""
    if product == "bf16":
        return nullcontext()
    return _Switched("ieee" if product == "fp32" else "tf32")


_switch = threading.RLock()


class _Switched(AbstractContextManager[None]):
    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    def __enter__(self) -> None:
        _switch.acquire()  # it is one for all threads
        self.before = before = _float32_precision("cuda", "matmul")
        self.is_other = self.wanted != ("ieee" if before == "none" else before)
        if self.is_other:
            # What it has from the switch above it is not to become its own.
            if before == _float32_precision("cuda", "all"):
                self.before = "none"
            torch.backends.cuda.matmul.fp32_precision = self.wanted

    def __exit__(self, *_: object) -> None:
        if self.is_other:
            torch.backends.cuda.matmul.fp32_precision = self.before
        _switch.release()


FRAMES = {
    "onchip": ("clusters", "onchip"),
    "block": ("block",),
    "grid": ("clusters", "grid"),
    "steps": ("steps",),
}
"""The texts behind a unit's."""


@cache
def module(
    device: int,
    frame: str,
    unit: str,
    product: str,
    constants: Constants,
    kernels: tuple[str, ...],
    text: str = "",
) -> Module:
    """The kernels of one unit in one frame, a `text` before its last; on the current device."""
    *before, last = ("functions", unit, *FRAMES[frame])
    here = Path(__file__).parent
    texts = [(here / f"{name}.cu").read_text() for name in before]
    source = "".join([*texts, text, (here / f"{last}.cu").read_text()])
    values = {"PRODUCT": PRODUCTS[product], **dict(constants)}
    architecture = torch.cuda.get_device_capability(device)
    return Module(nvrtc.compiled(source, values, architecture), kernels)
