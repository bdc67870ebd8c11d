"""Loading and launching a compiled kernel through the CUDA driver, on torch's current stream."""

import ctypes
import functools
from typing import Any

import torch

MAX_DYNAMIC_SHARED_BYTES = 8
NON_PORTABLE_CLUSTER = 14
NON_BLOCKING = 1
INVALID_CONTEXT = 201


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: which, and a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int * 16))


COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 2, 4, 6
_OVERLAPPING = _Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, (ctypes.c_int * 16)(1))
_TOGETHER = _Attribute(COOPERATIVE, 0, (ctypes.c_int * 16)(1))


class _Launch(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z")),
        *((name, ctypes.c_uint) for name in ("block_x", "block_y", "block_z")),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class DriverError(RuntimeError):
    """A call of the CUDA driver failed."""


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: object) -> None:
    code = getattr(_driver(), name)(*arguments)
    if code == INVALID_CONTEXT and _enter_context() == 0:
        code = getattr(_driver(), name)(*arguments)
    if code != 0:
        reason = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(reason))
        said = reason.value.decode() if reason.value else f"error {code}"
        raise DriverError(f"{name}: {said}")


def _enter_context() -> int:
    """Make torch's context the thread's own, which torch itself does with a thread's first call.

    A backward pass may run in a thread where ours is the first.
    """
    device, context = ctypes.c_int(), ctypes.c_void_p()
    driver = _driver()
    return int(
        driver.cuDeviceGet(ctypes.byref(device), torch.cuda.current_device())
        or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        or driver.cuCtxSetCurrent(context)
    )


def new_stream() -> int:
    """The handle of a stream on the current device that nobody has used, for good."""
    stream = ctypes.c_void_p()
    _call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
    return int(stream.value or 0)


class Module:
    """The kernels of one machine code, on the device that is current when it is made."""

    def __init__(self, code: bytes, names: tuple[str, ...]) -> None:
        if torch.cuda.is_current_stream_capturing():
            raise DriverError(
                "a kernel cannot be loaded while a CUDA graph is captured: run it once before"
            )
        torch.cuda.synchronize()  # torch's context is now the current one
        self._module = ctypes.c_void_p()
        _call("cuModuleLoadData", ctypes.byref(self._module), code)
        shared = self._read_shared_bytes(len(names))
        self._functions = {}
        for name, size in zip(names, shared, strict=True):
            function = ctypes.c_void_p()
            _call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
            if size:  # a kernel for clusters; GPUs without them know no such attribute
                _call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_BYTES, size)
                _call("cuFuncSetAttribute", function, NON_PORTABLE_CLUSTER, 1)
            self._functions[name] = function, size

    def _read_shared_bytes(self, count: int) -> list[int]:
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        _call(
            "cuModuleGetGlobal_v2",
            ctypes.byref(address),
            ctypes.byref(size),
            self._module,
            b"shared_bytes",
        )
        values = (ctypes.c_int * count)()
        _call("cuMemcpyDtoH_v2", values, address, ctypes.c_size_t(ctypes.sizeof(values)))
        return list(values)

    def launch(
        self,
        name: str,
        blocks: int,
        threads: int,
        *arguments: Any,
        overlaps: bool = False,
        together: bool = False,
    ) -> None:
        """Queue a kernel; `arguments` are ctypes values in its order.

        One that `overlaps` may start before the kernel ahead of it has ended, and waits itself.
        One whose blocks wait for one another runs `together` or not at all.
        """
        function, shared = self._functions[name]
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        # What torch.cuda.current_stream().cuda_stream is, ten times as quick.
        stream = torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())
        setup = _Launch(blocks, 1, 1, threads, 1, 1, shared, stream)
        if overlaps:
            setup.attributes, setup.count = ctypes.pointer(_OVERLAPPING), 1
        if together:
            setup.attributes, setup.count = ctypes.pointer(_TOGETHER), 1
        _call("cuLaunchKernelEx", ctypes.byref(setup), function, pointers, None)

    def clusters_at_once(self, name: str, cluster: int, threads: int) -> int:
        """How many clusters of so many of a kernel's blocks the GPU has room for."""
        function, shared = self._functions[name]
        dimension = _Attribute(CLUSTER_DIMENSION, 0, (ctypes.c_int * 16)(cluster, 1, 1))
        setup = _Launch(cluster, 1, 1, threads, 1, 1, shared, None, ctypes.pointer(dimension), 1)
        count = ctypes.c_int()
        _call("cuOccupancyMaxActiveClusters", ctypes.byref(count), function, ctypes.byref(setup))
        return count.value
