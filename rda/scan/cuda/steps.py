"""A unit over time, a step at a time: cuBLAS and one kernel a step, replayed as CUDA graphs."""

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
"""Steps of a recording; a sequence is replayed in as few pieces as these allow."""
MOST_KEPT, MOST_BYTES = 16, 2**31
"""How many shapes keep their buffers and recordings, and how much memory they may hold."""
THREADS, PLANES = 128, 3
KERNELS = (
    "advance", "forward_begin", "forward_step", "backward_begin", "backward_step", "backward_end"
)  # fmt: skip


def obstacle(layer: Layer) -> str | None:
    """Why this cannot serve a layer, or None."""
    common = launching.obstacle(layer, 8, "tf32 and bf16")
    if common is not None:
        return common
    if layer.batch * layer.units >= 2**31:
        sizes = f"{layer.batch} times {layer.units}"
        return f"it counts rows times units in 31 bits, and these are {sizes}"
    return None


@cache
def _work_type(unit: type[ctypes.Structure], is_forward: bool) -> type[ctypes.Structure]:
    """As in steps.cu."""
    fields: list[tuple[str, Any]] = [("first", ctypes.c_int)]
    fields += [("input", Pointer)] if is_forward else []
    fields += [("unit", unit), ("lengths", Pointer), ("sizes", Sizes)]
    return type("Work", (ctypes.Structure,), {"_fields_": fields})


class _Steps:
    """The buffers of one shape, and its steps, recorded where they can be."""

    def __init__(self, work: Pass) -> None:
        self.is_forward = is_forward = work.is_forward
        self.product = product = work.product
        self.units, gates, batch = work.units, work.gates, work.sizes.batch
        device = work.weight.device
        padded = -(-self.units // 64) * 64  # cuBLAS is slower on rows of 1800
        constants = (("H", self.units), ("PADDED", padded), *work.constants)
        self.module = launching.module(
            device.index, "steps", work.unit, product, constants, KERNELS
        )
        self.overlaps = torch.cuda.get_device_capability(device)[0] >= 9
        self.blocks = -(-batch * self.units // THREADS)
        # Not of inference mode, even where that is on: later calls write to them outside of it.
        with torch.inference_mode(False):
            kind = torch.bfloat16 if product == "bf16" else torch.float32
            self.weight = torch.zeros(gates, padded, padded, dtype=kind, device=device)
            # Forward h and the gates' products; backward the gates' gradients, and each gate's
            # own product, which cuBLAS would else split and add up in one more kernel.
            inputs = (batch, padded) if is_forward else (gates, batch, padded)
            results = (batch, gates * padded) if is_forward else (gates, batch, padded)
            self.operand = torch.zeros(inputs, dtype=kind, device=device)
            self.result = torch.empty(results, device=device)
            self.planes = torch.empty(PLANES, batch, self.units, device=device)
            self.work = torch.zeros(256, dtype=torch.uint8, device=device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        held = (self.weight, self.operand, self.result, self.planes)
        self.bytes = sum(tensor.nbytes for tensor in held)

    def run(self, work: Pass) -> None:
        units = self.units
        self.weight[:, :units, :units].copy_(work.weight.view(-1, units, units))
        make = _work_type(type(work.at), self.is_forward)
        before = (pointer(work.projected),) if self.is_forward else ()
        given = make(0, *before, work.at, pointer(work.lengths), work.sizes)
        if self.is_forward:
            self._launch("forward_begin", given, *_at(self.work, self.operand, self.planes))
        else:
            self._launch("backward_begin", given, *_at(self.work, self.planes))
        if torch.cuda.is_current_stream_capturing():
            self._queue(work.sizes.time)
        else:
            left = work.sizes.time
            for steps in CHUNKS:
                for _ in range(left // steps):
                    self._recorded(steps).replay()
                left %= steps
        if not self.is_forward:
            self._launch("backward_end", *_at(self.work, self.result, self.planes))

    def _launch(self, kernel: str, *arguments: Any) -> None:
        self.module.launch(kernel, self.blocks, THREADS, *arguments)

    def _launch_step(
        self, kernel: str, work: Pointer, ahead: int, others: list[Pointer], overlaps: bool
    ) -> None:
        arguments = (work, ctypes.c_int(ahead), *others)
        self.module.launch(kernel, self.blocks, THREADS, *arguments, overlaps=overlaps)

    def _queue(self, steps: int) -> None:
        """Queue the next steps on the current stream."""
        work, *others = _at(self.work, self.result, self.operand, self.planes)
        for ahead in range(steps):
            if self.is_forward:
                self._multiply()
                self._launch_step("forward_step", work, ahead, others, self.overlaps)
            else:
                # The first one follows no product, and needs all of what it follows.
                self._launch_step("backward_step", work, ahead, others, self.overlaps and ahead > 0)
                self._multiply()
        self.module.launch("advance", 1, 1, work, ctypes.c_int(steps))

    def _multiply(self) -> None:
        multiply, factor = torch.bmm, self.weight
        if self.is_forward:
            multiply, factor = torch.mm, self.weight.flatten(0, 1).t()
        # What bf16 multiplies is added up in float32 either way; here it also stays that.
        wider = {"out_dtype": torch.float32} if self.product == "bf16" else {}
        with launching.products(self.product):
            multiply(self.operand, factor, out=self.result, **wider)

    def _recorded(self, steps: int) -> torch.cuda.CUDAGraph:
        if steps not in self.graphs:
            current = torch.cuda.current_stream()
            with torch.inference_mode(False), torch.no_grad():
                side, pool = _recording_stream(current, torch.cuda.current_blas_handle())
                side.wait_stream(current)
                self.graphs[steps] = _record(side, lambda: self._queue(steps), pool)
                current.wait_stream(side)
        return self.graphs[steps]


def _at(*tensors: Tensor) -> list[Pointer]:
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
    """A stream on which to record what is replayed on `current`, and the memory pool for it.

    cuBLAS has a workspace for each stream and handle, at an address that recordings keep. Here
    it is allocated by a recording, in a pool that a first recording holds for good: torch may
    drop the workspace, and then the next recording has another, but neither is ever given away.
    Streams from torch's pool may have one already, which others use, or free.
    """
    key = (current.device.index, current.cuda_stream, handle)
    if key not in _streams:
        stream = torch.cuda.ExternalStream(new_stream(), current.device)
        square = torch.zeros(64, 64, device=current.device)
        stream.wait_stream(current)
        _streams[key] = stream, _record(stream, lambda: square.mm(square))
    found, first = _streams[key]
    return found, first.pool()


_kept: OrderedDict[tuple[Any, ...], _Steps] = OrderedDict()
_turn = threading.Lock()


def run(work: Pass) -> None:
    """Queue a unit's forward or backward pass."""
    if torch.cuda.is_current_stream_capturing():
        # Into the caller's recording, with buffers of its own memory.
        _Steps(work).run(work)
        return
    weight, stream = work.weight, torch.cuda.current_stream().cuda_stream
    key = (
        work.direction, work.unit, work.product, work.constants, tuple(weight.shape),
        work.sizes.batch, weight.device, stream,
    )  # fmt: skip
    with _turn:
        if key not in _kept:
            _kept[key] = _Steps(work)
            _forget_the_oldest()
        _kept.move_to_end(key)
        _kept[key].run(work)


def _forget_the_oldest() -> None:
    """All but what one layer needs, as far as they are too many or too large."""
    while len(_kept) > MOST_KEPT or sum(each.bytes for each in _kept.values()) > MOST_BYTES:
        if len(_kept) <= 2:  # the last one's forward and backward pass
            return
        _, oldest = _kept.popitem(last=False)
        torch.cuda.synchronize(oldest.weight.device)
