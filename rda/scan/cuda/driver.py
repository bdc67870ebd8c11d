"""Loading and launching a compiled kernel through the CUDA driver, on torch's current stream."""

import ctypes
import functools
from collections.abc import Mapping
from typing import Any

import torch

MAX_DYNAMIC_SHARED_BYTES = 8
NON_PORTABLE_CLUSTER = 14
NON_BLOCKING = 1
INVALID_CONTEXT = 201


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: the id of an attribute, and its value, a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int * 16))


COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 2, 4, 6
_OVERLAPPING = _Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, (ctypes.c_int * 16)(1))
_COOPERATIVE = _Attribute(COOPERATIVE, 0, (ctypes.c_int * 16)(1))


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
        message = reason.value.decode() if reason.value else f"error {code}"
        raise DriverError(f"{name}: {message}")


def _enter_context() -> int:
    """Make torch's CUDA context current in this thread.

    torch does this at its first CUDA call in a thread, but autograd's thread may launch a kernel
    of ours before torch has called CUDA there.
    """
    device, context = ctypes.c_int(), ctypes.c_void_p()
    driver = _driver()
    return int(
        driver.cuDeviceGet(ctypes.byref(device), torch.cuda.current_device())
        or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        or driver.cuCtxSetCurrent(context)
    )


def new_stream() -> int:
    """The handle of a new stream on the current device, never freed, that nobody else uses."""
    stream = ctypes.c_void_p()
    _call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
    return int(stream.value or 0)


class Module:
    """Compiled kernels, loaded on the device that is current when the module is made."""

    def __init__(self, code: bytes, names: Mapping[str, str]) -> None:
        """`names` has the name of each kernel in the code, in the order of its `shared_bytes`."""
        if torch.cuda.is_current_stream_capturing():
            raise DriverError(
                "a kernel cannot be loaded while a CUDA graph is captured: "
                "run it once before capturing"
            )
        torch.cuda.synchronize()  # makes torch's context current
        self._module = ctypes.c_void_p()
        _call("cuModuleLoadData", ctypes.byref(self._module), code)
        shared = self._read_shared_bytes(len(names))
        self._functions = {}
        for (kernel, name), size in zip(names.items(), shared, strict=True):
            function = ctypes.c_void_p()
            _call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
            if size:  # only kernels for clusters; older GPUs reject the cluster attribute
                _call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_BYTES, size)
                _call("cuFuncSetAttribute", function, NON_PORTABLE_CLUSTER, 1)
            self._functions[kernel] = function, size

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
        cooperative: bool = False,
    ) -> None:
        """Queue a kernel; `arguments` are ctypes values in the kernel's order.

        With `overlaps` the kernel may start before the previous one has ended, and has to wait
        for that one itself (programmatic dependent launch). With `cooperative` all blocks run at
        once or the launch fails, as kernels need whose blocks wait for one another.
        """
        function, shared = self._functions[name]
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        # The same value as torch.cuda.current_stream().cuda_stream, ten times as fast.
        stream = torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())
        setup = _Launch(blocks, 1, 1, threads, 1, 1, shared, stream)
        if overlaps:
            setup.attributes, setup.count = ctypes.pointer(_OVERLAPPING), 1
        if cooperative:
            setup.attributes, setup.count = ctypes.pointer(_COOPERATIVE), 1
        _call("cuLaunchKernelEx", ctypes.byref(setup), function, pointers, None)

    def clusters_at_once(self, name: str, cluster: int, threads: int) -> int:
        """How many clusters of `cluster` blocks of a kernel the GPU can run at once."""
        function, shared = self._functions[name]
        dimension = _Attribute(CLUSTER_DIMENSION, 0, (ctypes.c_int * 16)(cluster, 1, 1))
        setup = _Launch(cluster, 1, 1, threads, 1, 1, shared, None, ctypes.pointer(dimension), 1)
        count = ctypes.c_int()
        _call("cuOccupancyMaxActiveClusters", ctypes.byref(count), function, ctypes.byref(setup))
        return count.value
