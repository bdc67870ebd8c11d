"""The engine `graph`: a cuBLAS matmul and one kernel a step, replayed as CUDA graphs."""

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from rda.scan.cuda import launching
from rda.scan.cuda.driver import new_stream
from rda.scan.cuda.launching import Layer, Pass, Pointer, Sizes, pointer

CHUNKS = (64, 8, 1)
"""Steps of a recorded graph; a sequence is replayed in as few pieces as these sizes allow."""
MOST_CACHED, MOST_BYTES = 16, 2**31
"""How many shapes have cached buffers and graphs, and how much memory these may hold."""
THREADS = 128
"""Threads of a block."""
KERNELS = (
    "advance", "forward_begin", "forward_step", "backward_begin", "backward_step", "backward_end"
)  # fmt: skip


def obstacle(layer: Layer) -> str | None:
    """Why the engine cannot serve a layer, or None."""
    if common := launching.obstacle(layer, 8, "tf32 and bf16"):
        return common
    if layer.batch * layer.units >= 2**31:
        sizes = f"{layer.batch} times {layer.units}"
        return f"it takes less than 2**31 rows times units, and these are {sizes}"
    return None


@cache
def _work_type(unit: type[ctypes.Structure], is_forward: bool) -> type[ctypes.Structure]:
    """ForwardWork or BackwardWork of steps.cu."""
    fields: list[tuple[str, Any]] = [("first", ctypes.c_int)]
    fields += [("input", Pointer)] if is_forward else []
    fields += [("unit", unit), ("lengths", Pointer), ("sizes", Sizes)]
    return type("Work", (ctypes.Structure,), {"_fields_": fields})


class _Steps:
    """The buffers for layers of one shape, and the graphs recorded on them.

    A graph holds addresses, so its buffers live as long as it does. Inside a capture of the
    caller's nothing is recorded: the steps become part of that capture.
    """

    def __init__(self, work: Pass) -> None:
        self.is_forward = is_forward = work.is_forward
        self.precision = precision = work.precision
        self.units, gates, batch = work.units, work.gates, work.sizes.batch
        device = work.weight.device
        padded = -(-self.units // 64) * 64  # cuBLAS is faster on rows of 1856 than of 1800
        constants = (("H", self.units), ("PADDED", padded), ("PLANES", work.unit.planes))
        self.module = launching.module(
            device.index, "steps", work.unit, precision, constants, KERNELS
        )
        self.overlaps = torch.cuda.get_device_capability(device)[0] >= 9
        self.blocks = -(-batch * self.units // THREADS)
        # Never inference tensors, even in inference mode: later calls write to them outside of it.
        with torch.inference_mode(False):
            dtype = torch.bfloat16 if precision == "bf16" else torch.float32
            self.weight = torch.zeros(gates, padded, padded, dtype=dtype, device=device)
            # Forward: h, and one matmul for all gates. Backward: the gradients of the gates, and a
            # matmul for each gate. As one matmul, cuBLAS would split it and add the pieces up in
            # one more kernel.
            inputs = (batch, padded) if is_forward else (gates, batch, padded)
            results = (batch, gates * padded) if is_forward else (gates, batch, padded)
            self.operand = torch.zeros(inputs, dtype=dtype, device=device)
            self.result = torch.empty(results, device=device)
            self.planes = torch.empty(work.unit.planes, batch, self.units, device=device)
            work_bytes = ctypes.sizeof(_work_type(type(work.addresses), is_forward))
            self.work = torch.zeros(work_bytes, dtype=torch.uint8, device=device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        buffers = (self.weight, self.operand, self.result, self.planes)
        self.bytes = sum(buffer.nbytes for buffer in buffers)

    def run(self, work: Pass) -> None:
        units = self.units
        self.weight[:, :units, :units].copy_(work.weight.view(-1, units, units))
        work_type = _work_type(type(work.addresses), self.is_forward)
        projected = (pointer(work.projected),) if self.is_forward else ()
        given = work_type(0, *projected, work.addresses, pointer(work.lengths), work.sizes)
        if self.is_forward:
            self._launch("forward_begin", given, *_pointers(self.work, self.operand, self.planes))
        else:
            self._launch("backward_begin", given, *_pointers(self.work, self.planes))
        if torch.cuda.is_current_stream_capturing():
            self._queue(work.sizes.time)
        else:
            left = work.sizes.time
            for steps in CHUNKS:
                for _ in range(left // steps):
                    self._graph(steps).replay()
                left %= steps
        if not self.is_forward:
            self._launch("backward_end", *_pointers(self.work, self.result, self.planes))

    def _launch(self, kernel: str, *arguments: Any, overlaps: bool = False) -> None:
        self.module.launch(kernel, self.blocks, THREADS, *arguments, overlaps=overlaps)

    def _queue(self, steps: int) -> None:
        """Queue the next steps on the current stream."""
        work, *buffers = _pointers(self.work, self.result, self.operand, self.planes)
        for offset in range(steps):
            arguments = (work, ctypes.c_int(offset), *buffers)
            if self.is_forward:
                self._multiply()
                self._launch("forward_step", *arguments, overlaps=self.overlaps)
            else:
                # The first step follows no matmul, and needs everything before it to be complete.
                overlaps = self.overlaps and offset > 0
                self._launch("backward_step", *arguments, overlaps=overlaps)
                self._multiply()
        self.module.launch("advance", 1, 1, work, ctypes.c_int(steps))

    def _multiply(self) -> None:
        multiply, factor = torch.bmm, self.weight
        if self.is_forward:
            multiply, factor = torch.mm, self.weight.flatten(0, 1).t()
        # bf16 matmuls accumulate in float32 anyway; the result stays float32 too.
        options = {"out_dtype": torch.float32} if self.precision == "bf16" else {}
        with launching.products(self.precision):
            multiply(self.operand, factor, out=self.result, **options)

    def _graph(self, steps: int) -> torch.cuda.CUDAGraph:
        if steps not in self.graphs:
            current = torch.cuda.current_stream()
            with torch.inference_mode(False), torch.no_grad():
                stream, pool = _recording_stream(current, torch.cuda.current_blas_handle())
                stream.wait_stream(current)
                self.graphs[steps] = _record(stream, lambda: self._queue(steps), pool)
                current.wait_stream(stream)
        return self.graphs[steps]


def _pointers(*tensors: Tensor) -> list[Pointer]:
    return [pointer(tensor) for tensor in tensors]


def _record(
    stream: torch.cuda.Stream, work: Callable[[], object], pool: Any = None
) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
    return graph


_streams: dict[tuple[int, int, int], tuple[torch.cuda.Stream, torch.cuda.CUDAGraph]] = {}


def _recording_stream(current: torch.cuda.Stream, handle: int) -> tuple[torch.cuda.Stream, Any]:
    """A stream on which to record graphs for `current`, and their memory pool.

    cuBLAS has a workspace for each stream and handle, and a recorded graph goes on using its
    address, so that memory must never serve anything else. Here the workspace is allocated
    during a recording, in a memory pool that the first recorded graph holds forever. torch may
    drop the workspace, and the next recording then gets another one, but the memory of both
    stays in the pool. The stream is new, because a stream from torch's own pool may already have
    a workspace that others use or free.
    """
    key = (current.device.index, current.cuda_stream, handle)
    if key not in _streams:
        stream = torch.cuda.ExternalStream(new_stream(), current.device)
        square = torch.zeros(64, 64, device=current.device)
        stream.wait_stream(current)
        _streams[key] = stream, _record(stream, lambda: square.mm(square))
    recording_stream, first_graph = _streams[key]
    return recording_stream, first_graph.pool()


_cache: OrderedDict[tuple[Any, ...], _Steps] = OrderedDict()
_lock = threading.Lock()


def run(work: Pass) -> None:
    """Queue a unit's forward or backward pass."""
    if torch.cuda.is_current_stream_capturing():
        # The steps become part of the caller's graph, with buffers from that graph's memory.
        _Steps(work).run(work)
        return
    weight, stream = work.weight, torch.cuda.current_stream().cuda_stream
    key = (
        work.direction, work.unit, work.precision, tuple(weight.shape),
        work.sizes.batch, weight.device, stream,
    )  # fmt: skip
    with _lock:
        if key not in _cache:
            _cache[key] = _Steps(work)
            _evict_the_oldest()
        _cache.move_to_end(key)
        _cache[key].run(work)


def _evict_the_oldest() -> None:
    """Evict until the cache is small enough; one layer's two entries may always stay."""
    while len(_cache) > MOST_CACHED or sum(each.bytes for each in _cache.values()) > MOST_BYTES:
        if len(_cache) <= 2:  # the forward and the backward pass of the newest layer
            return
        _, oldest = _cache.popitem(last=False)
        torch.cuda.synchronize(oldest.weight.device)
