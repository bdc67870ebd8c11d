"""What all GPU engines share: kernel arguments, precision, compilation."""

import ctypes
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rda.precision import Precision
from rda.scan.addresses import Addresses
from rda.scan.cuda import nvrtc
from rda.scan.cuda.driver import Module
from rda.scan.tracing import constant_when_traced

PRODUCTS = {"tf32": 0, "fp32": 1, "bf16": 2}
"""Precisions of the matrix multiplies, with the value of the constant PRODUCT in the CUDA text."""
SMALL = 32
"""Layers of up to this many units always multiply in float32."""

Pointer = ctypes.c_void_p
Constants = tuple[tuple[str, int], ...]


class Sizes(ctypes.Structure):
    """The struct of the same name in functions.cu."""

    _fields_ = (("time", ctypes.c_int), ("batch", ctypes.c_int), ("reverse", ctypes.c_int))


Direction = Literal["forward", "backward"]


class UnitText(NamedTuple):
    """The CUDA text of a unit in one precision. Units with the same text share their kernels."""

    name: str
    text: str
    planes: int
    """The most float32 values that the unit carries from step to step in either pass."""


class Pass(NamedTuple):
    """The forward or backward pass of one unit over a whole sequence, for an engine to run."""

    direction: Direction
    unit: UnitText
    precision: Precision
    projected: Tensor | None
    """W x + b for every step; None in a backward pass."""
    weight: Tensor
    """The recurrent weight, (gates * units, units)."""
    addresses: Addresses
    """Where the unit's tensors are in GPU memory: UnitForward or UnitBackward of its text."""
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
        """The arguments of a kernel that runs the whole sequence, in order."""
        projected = () if self.projected is None else (pointer(self.projected),)
        return (
            *projected, pointer(self.weight), self.addresses, pointer(self.lengths), self.sizes
        )  # fmt: skip

    def queue(self, run: "Run") -> None:
        """Run on the weight's GPU; an empty batch has nothing to run."""
        if self.sizes.batch:
            with on_device(self.weight):
                run(self)


Run = Callable[[Pass], None]


def pointer(tensor: Tensor | None) -> Pointer:
    """The address of the tensor's data; null for None."""
    return Pointer(None if tensor is None else tensor.data_ptr())


class Layer(NamedTuple):
    """What decides which engines can run a layer on an input, and which is fastest."""

    device: torch.device
    dtype: torch.dtype
    units: int
    gates: int
    batch: int
    precision: Precision

    @staticmethod
    def on(input: Tensor, units: int, gates: int, batch: int) -> "Layer":
        """Describe a layer, with the precision that torch's switches ask for now."""
        dtype = input.dtype
        return Layer(input.device, dtype, units, gates, batch, product_for(dtype, units))


def obstacle(layer: Layer, oldest: int, feature: str) -> str | None:
    """Why no GPU kernel can run such a layer, or None.

    `oldest` is the major compute capability that is needed, `feature` what older GPUs lack.
    """
    if layer.device.type != "cuda":
        return f"it runs on an NVIDIA GPU, and the tensors are on {layer.device.type}"
    if torch.version.hip is not None:
        return "it is written for NVIDIA's GPUs"
    if layer.dtype == torch.float64:
        return "it works in float32, and the tensors are float64"
    return _missing(layer.device, oldest, feature)


# torch.compile calls this while tracing, so that what it traces can run on this machine.
@constant_when_traced
def capability(device: torch.device) -> tuple[int, int]:
    """The GPU's compute capability; 9.0, which every engine supports, where there is no GPU."""
    return _capability(device)


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device) if torch.cuda.is_available() else (9, 0)


@constant_when_traced
def _missing(device: torch.device, oldest: int, feature: str) -> str | None:
    return _find_missing(device, oldest, feature)


@cache
def _find_missing(device: torch.device, oldest: int, feature: str) -> str | None:
    major, minor = capability(device)
    if major < oldest:
        return f"it needs {feature} (sm_{oldest}0), and this GPU is an sm_{major}{minor}"
    try:
        nvrtc.library()
    except nvrtc.CompileError as error:
        return str(error)
    return None


@cache
def multiprocessors(device: int) -> int:
    """How many blocks a GPU runs at once that need a whole multiprocessor each."""
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def clusters_at_once(device: int, blocks: int) -> int:
    """How many clusters of so many blocks a GPU runs at once, if a block has a multiprocessor."""
    properties = torch.cuda.get_device_properties(device)
    more_than_half = properties.shared_memory_per_multiprocessor // 2 + 1
    text = f"""
extern "C" __global__ void probe() {{}}
extern "C" __device__ int shared_bytes[1] = {{{more_than_half}}};
"""
    with torch.cuda.device(device):
        module = Module(
            nvrtc.compiled(text, {}, torch.cuda.get_device_capability(device)), {"probe": "probe"}
        )
        return module.clusters_at_once("probe", blocks, threads=256)


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """Make the tensor's GPU the current device; costs nothing if it already is."""
    index = tensor.device.index
    if index is None or torch._C._cuda_getDevice() == index:
        return nullcontext()
    return torch.cuda.device(index)


def product_for(dtype: torch.dtype, units: int) -> Precision:
    """The precision in which a layer multiplies: "tf32", "fp32" or "bf16".

    It follows torch's switches for recurrent layers, and the dtype where that is half precision.
    Small layers use float32: in them nothing averages the rounding errors out, and float32
    costs no time.
    """
    if units <= SMALL:
        return "fp32"
    if dtype == torch.bfloat16:
        return "bf16"
    return "tf32" if dtype == torch.float16 or _wanted_for_recurrent_layers() else "fp32"


def _wanted_for_recurrent_layers() -> bool:
    """Whether torch's switches allow tf32; the most specific switch that is set decides."""
    if torch.compiler.is_compiling():
        switches = (torch.backends.cudnn.rnn, torch.backends.cudnn, torch.backends)
        found = (str(switch.fp32_precision) for switch in switches)
    else:
        names = (("cuda", "rnn"), ("cuda", "all"), ("generic", "all"))
        found = (_float32_precision(*name) for name in names)
    return next((value for value in found if value != "none"), "ieee") == "tf32"


# The function behind the properties of torch.backends, ten times as fast as they are.
# torch.compile can trace only the properties.
_float32_precision: Callable[[str, str], str] = torch._C._get_fp32_precision_getter


def products(precision: str) -> AbstractContextManager[None]:
    """A context in which torch's float32 matmuls have the precision of the kernel's."""
    if precision == "bf16":
        return nullcontext()
    return _Switched("ieee" if precision == "fp32" else "tf32")


_switch = threading.RLock()


class _Switched(AbstractContextManager[None]):
    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    def __enter__(self) -> None:
        _switch.acquire()  # torch has one switch for all threads
        self.previous = previous = _float32_precision("cuda", "matmul")
        self.changes = self.wanted != ("ieee" if previous == "none" else previous)
        if self.changes:
            # A value inherited from the more general switch is restored as "none", so that the
            # matmul switch goes on inheriting.
            if previous == _float32_precision("cuda", "all"):
                self.previous = "none"
            torch.backends.cuda.matmul.fp32_precision = self.wanted

    def __exit__(self, *_: object) -> None:
        if self.changes:
            torch.backends.cuda.matmul.fp32_precision = self.previous
        _switch.release()


FRAMES = {
    "onchip": ("clusters", "onchip"),
    "block": ("block",),
    "grid": ("clusters", "grid"),
    "steps": ("steps",),
}
"""The CUDA files of each engine, in the order in which they follow the unit's file."""


@cache
def module(
    device: int,
    frame: str,
    unit: UnitText,
    precision: Precision,
    constants: Constants,
    kernels: tuple[str, ...],
    generated: str = "",
) -> Module:
    """The compiled kernels of one unit in one engine, loaded on the current device.

    `generated` is CUDA text that is inserted before the last file. Kernels are named after unit and
    frame, so that a profiler tells them apart.
    """
    text = source(frame, unit, generated)
    prefix = re.sub(r"[^0-9A-Za-z_]", "_", unit.name)
    names = {kernel: f"{prefix}_{frame}_{kernel}" for kernel in kernels}
    values: dict[str, int | str] = {"PRODUCT": PRODUCTS[precision], **dict(constants), **names}
    architecture = torch.cuda.get_device_capability(device)
    return Module(nvrtc.compiled(text, values, architecture), names)


def source(frame: str, unit: UnitText, generated: str = "") -> str:
    """The CUDA text of one unit in one engine. A compiler's message names the file and the line."""
    *leading, last = FRAMES[frame]
    of_unit = (f"{unit.name}, generated", unit.text)
    pieces = [_file("hardware"), _file("functions"), of_unit, *map(_file, leading)]
    pieces += [("generated", generated), _file(last)]
    return "".join(f'#line 1 "{name}"\n{text}\n' for name, text in pieces if text)


def _file(name: str) -> tuple[str, str]:
    path = Path(__file__).parent / f"{name}.cu"
    return path.name, path.read_text()
