"""A unit over time in one kernel on the whole GPU, its weights in all shared memory there is."""

import ctypes
from functools import cache
from typing import NamedTuple

import torch

from rda.scan.cuda import launching, nvrtc, steps
from rda.scan.cuda.driver import Module
from rda.scan.cuda.launching import Constants, Layer, Pass, Pointer, pointer

CHAIN, CHAINS = 128, 2
THREADS = CHAIN * CHAINS
SHARED_BYTES = 227 * 1024
WIDEST = 256
"""Columns of one product of the tensor cores."""

FORWARD = ((8, 2), (16, 2))
BACKWARD = ((8, 4), (16, 4), (16, 2))
"""Units of a block and blocks of a cluster, the quickest first: more units and larger clusters
read less, smaller clusters have less to add up. Backward three or four times as much is read."""

CLUSTERS = tuple(sorted({cluster for _, cluster in (*FORWARD, *BACKWARD)}))
ENDLESS = (1 << 20,) * len(CLUSTERS)
"""Room for each of them where there is no GPU to ask."""


class Board(ctypes.Structure):
    """As in grid.cu."""

    _fields_ = (("counters", Pointer), ("chunks", Pointer))


class Layout(NamedTuple):
    """How the weights lie on the GPU."""

    own: int  # units of a block
    cluster: int  # blocks that split k
    blocks: int
    steps: int  # k-steps of a block
    columns: int  # of a cluster's product

    @property
    def shared_bytes(self) -> int:
        """Of a block: weights, and what the others of its cluster send, three bytes a number."""
        each = self.columns // self.cluster // 2
        words = -(-each * 3 // 8) * 2
        exchanged = (self.cluster - 1) * words * 4 * CHAIN
        return self.steps * 16 * self.columns * 2 + CHAINS * (exchanged + 8)

    @property
    def chunk_bytes(self) -> int:
        """Of what all blocks write for one another, in two buffers."""
        return 2 * CHAINS * self.cluster * self.steps * CHAIN * 16


def obstacle(layer: Layer) -> str | None:
    """Why the kernel cannot serve a layer, or None."""
    common = launching.obstacle(layer, 9, "clusters of thread blocks")
    if common is not None:
        return common
    units, gates = layer.units, layer.gates
    if layer.product != "bf16":
        return f"it multiplies in bf16, and this is {layer.product}"
    if units % 4:
        return f"it takes a multiple of 4 units, and these are {units}"
    major, minor = launching.capability(layer.device)
    if (major, minor) != (9, 0):
        return f"it needs Hopper's tensor cores (sm_90), and this GPU is an sm_{major}{minor}"
    room = _room(layer.device)
    if None in (layout(room, units, gates, "forward"), layout(room, units, gates, "backward")):
        return f"{units} units are more than this GPU's shared memory holds"
    return None


def layout(room: tuple[int, ...], units: int, gates: int, direction: str) -> Layout | None:
    """The quickest there is `room` for: how many of CLUSTERS at once."""
    is_forward = direction == "forward"
    for own, cluster in FORWARD if is_forward else BACKWARD:
        blocks = -(-units // (own * cluster)) * cluster
        k_steps = -(-units // 16) * (1 if is_forward else gates)
        columns = cluster * own * (gates if is_forward else 1)
        found = Layout(own, cluster, blocks, -(-k_steps // cluster), columns)
        fits = columns <= WIDEST and found.shared_bytes <= SHARED_BYTES
        if fits and blocks <= cluster * room[CLUSTERS.index(cluster)]:
            return found
    return None


# Asked while torch.compile traces too; of the device alone, for sizes may be symbols then.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _room(device: torch.device) -> tuple[int, ...]:
    if not torch.cuda.is_available():
        return ENDLESS  # as in launching.capability
    return _measured_room(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _measured_room(device: int) -> tuple[int, ...]:
    """Of blocks with all shared memory of a multiprocessor."""
    text = f"""
extern "C" __global__ void probe() {{}}
extern "C" __device__ int shared_bytes[1] = {{{SHARED_BYTES}}};
"""
    with torch.cuda.device(device):
        module = Module(nvrtc.compiled(text, {}, (9, 0)), ("probe",))
        return tuple(module.clusters_at_once("probe", size, THREADS) for size in CLUSTERS)


@cache
def _layout_on(device: int, units: int, gates: int, direction: str) -> Layout:
    found = layout(_measured_room(device), units, gates, direction)
    assert found is not None, "the obstacle said so"
    return found


@cache
def _module(
    device: int, layout: Layout, direction: str, unit: str, units: int, own: Constants
) -> Module:
    constants = (
        ("H", units),
        ("OWN", layout.own),
        ("CLUSTER", layout.cluster),
        ("STEPS", layout.steps),
        ("BACKWARD", int(direction == "backward")),
        *own,
    )
    multiply = _multiply_text(layout.columns)
    return launching.module(device, "grid", unit, "bf16", constants, (direction,), multiply)


def _multiply_text(columns: int) -> str:
    """wgmma for one width: its registers must be named one by one."""
    count = columns // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(sum[{i}])' for i in range(count))
    operands = ", ".join(f"%{count + i}" for i in range(4))
    b, add = f"%{count + 4}", f"%{count + 5}"
    return f"""
__device__ __forceinline__
void multiply(float (&sum)[{count}], const u32 (&a)[4], u64 b, int add) {{
  asm volatile(
      "{{\\n.reg .pred add;\\nsetp.ne.b32 add, {add}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 {{{sums}}}, {{{operands}}}, "
      "{b}, add, 1, 1, 0;\\n}}"
      : {outputs}
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}}
"""


def run(work: Pass) -> None:
    """Queue a unit's forward or backward kernel."""
    if not _is_aligned(work):
        steps.run(work)
        return
    device = work.weight.device
    found = _layout_on(device.index, work.units, work.gates, work.direction)
    module = _module(device.index, found, work.direction, work.unit, work.units, work.constants)
    memory = torch.zeros(256 + found.chunk_bytes, dtype=torch.uint8, device=device)
    board = Board(memory.data_ptr(), memory.data_ptr() + 256)
    arguments = (*work.arguments(), board)
    module.launch(work.direction, found.blocks, THREADS, *arguments, together=True)


def _is_aligned(work: Pass) -> bool:
    """Whether four numbers can be read at once: what a caller gives may begin anywhere."""
    addresses = [getattr(work.at, name) or 0 for name, *_ in work.at._fields_]
    return not any(each % 8 for each in (*addresses, pointer(work.projected).value or 0))
