"""What the units of the kernel on chip share: sizes, precision, compiling and launching."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor

from rda.scan.cuda import nvrtc
from rda.scan.cuda.driver import Module

PRODUCTS = {"tf32": 0, "fp32": 1, "bf16": 2}
LARGEST = {"tf32": 512, "fp32": 256, "bf16": 512}
"""Units whose recurrent matrix the registers of a cluster hold."""
SMALL = 32
ROWS, THREADS = 8, 256

Pointer = ctypes.c_void_p


class Sizes(ctypes.Structure):
    """As in skeleton.cu."""

    _fields_ = (("time", ctypes.c_int), ("batch", ctypes.c_int), ("reverse", ctypes.c_int))


def structure(name: str, fields: str) -> type[ctypes.Structure]:
    """A struct of pointers."""
    return type(name, (ctypes.Structure,), {"_fields_": [(f, Pointer) for f in fields.split()]})


def pointer(tensor: Tensor | None) -> Pointer:
    """To the tensor's numbers; null where there are none."""
    return Pointer(None if tensor is None or not tensor.numel() else tensor.data_ptr())


def pointers(*tensors: Tensor | None) -> Iterator[Pointer]:
    """Of each."""
    return map(pointer, tensors)


def obstacle(input: Tensor, units: int) -> str | None:
    """Why the kernel cannot serve such an input and so many units, or None."""
    if input.device.type != "cuda":
        return f"it runs on an NVIDIA GPU, and the tensors are on {input.device.type}"
    if torch.version.hip is not None:
        return "it is written for NVIDIA's GPUs"
    if input.dtype == torch.float64:
        return "it works in float32, and the tensors are float64"
    product = product_for(input, units)
    if units > LARGEST[product]:
        return f"it holds {LARGEST[product]} units on chip in {product}, and these are {units}"
    # While torch.compile traces nothing is asked of the machine; the op finds out when it runs.
    return None if torch.compiler.is_compiling() else _missing(input.device, units)


def _missing(device: torch.device, units: int) -> str | None:
    """What this machine lacks."""
    major, minor = torch.cuda.get_device_capability(device)
    if major < 9:
        return f"it needs clusters of thread blocks (sm_90), and this GPU is an sm_{major}{minor}"
    if major >= 12 and cluster_size(units) > 8:
        return f"an sm_{major}{minor} has clusters of 8 blocks, and {units} units need more"
    try:
        nvrtc.library()
    except nvrtc.CompileError as error:
        return str(error)
    return None


def product_for(input: Tensor, units: int) -> str:
    """The precision of the products: torch's own for recurrent layers, bf16 for bf16.

    In a small layer nothing averages tf32's errors out, and float32 costs no time.
    """
    if input.dtype == torch.bfloat16:
        return "bf16"
    wanted = input.dtype == torch.float16 or torch.backends.cudnn.allow_tf32
    return "tf32" if wanted and units > SMALL else "fp32"


def cluster_size(units: int) -> int:
    """Blocks of 32 units each; a multiple of four, so that all warps have work backward."""
    return -(-units // 128) * 4


@cache
def _source(unit: str) -> str:
    here = Path(__file__).parent
    return "".join((here / f"{name}.cu").read_text() for name in ("functions", unit, "skeleton"))


@cache
def _module(
    device: int, unit: str, units: int, product: str, own: tuple[tuple[str, int], ...]
) -> Module:
    constants = {"H": units, "CLUSTER": cluster_size(units), "PRODUCT": PRODUCTS[product]}
    capability = torch.cuda.get_device_capability(device)
    code = nvrtc.compiled(_source(unit), {**constants, **dict(own)}, capability)
    return Module(code, ("forward", "backward"))


def launcher(
    name: str, unit: str, product: str, weight: Tensor, batch: int, **own: int
) -> Callable[..., None]:
    """A unit's forward or backward kernel, to be called with its arguments."""
    units = weight.shape[1]
    module = _module(weight.device.index, unit, units, product, tuple(own.items()))
    return partial(module.launch, name, -(-batch // ROWS) * cluster_size(units), THREADS)


@contextmanager
def products(product: str) -> Iterator[None]:
    """torch's own float32 products in the precision of the kernel's."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = product != "fp32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
