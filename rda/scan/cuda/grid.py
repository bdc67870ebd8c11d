"""The engine `grid`: one kernel on the whole GPU, the weights in all of its shared memory."""

import ctypes
from functools import cache
from typing import NamedTuple

import torch

from rda.scan.cuda import launching, steps
from rda.scan.cuda.driver import Module
from rda.scan.cuda.launching import Layer, Pass, Pointer, UnitText, pointer
from rda.scan.tracing import constant_when_traced

CHAIN, CHAINS = 128, 2
"""As in grid.cu: threads that work on the same batch rows, and such groups in a block."""
THREADS = CHAIN * CHAINS
SHARED_BYTES = 227 * 1024
"""Shared memory that a block may use on Hopper."""
WIDEST = 256
"""Most columns of one wgmma instruction."""

FORWARD = ((8, 2), (16, 2))
BACKWARD = ((8, 4), (16, 4), (16, 2))
"""(units of a block, blocks of a cluster) to try, the fastest first.

With more units per block and with larger clusters less is read from memory; smaller clusters have
less to add up. The backward pass reads three or four times as much as the forward pass."""

CLUSTERS = tuple(sorted({cluster for _, cluster in (*FORWARD, *BACKWARD)}))
ENDLESS = (1 << 20,) * len(CLUSTERS)
"""How many of each are assumed to fit where there is no GPU to ask."""


class Board(ctypes.Structure):
    """The struct of the same name in grid.cu."""

    _fields_ = (("counters", Pointer), ("chunks", Pointer), ("sums", Pointer))


class Layout(NamedTuple):
    """How the weights are distributed over the GPU."""

    own: int  # units of a block
    cluster: int  # blocks of a cluster, which split k between them
    blocks: int  # of the whole GPU
    steps: int  # steps of 16 along k in a block
    columns: int  # of a cluster's matmul
    tail: int = 0  # four units each along k that are left after all steps
    in_memory: bool = False  # whether a cluster exchanges its sums through global memory

    @property
    def shared_bytes(self) -> int:
        """Of a block: its weights, and what its cluster sends it."""
        weights = (self.steps * 16 + self.tail * 4) * self.columns * 2
        return weights + CHAINS * (8 if self.in_memory else self._exchanged + 8)

    @property
    def chunk_bytes(self) -> int:
        """Of the two buffers through which all blocks exchange h or gradients."""
        return 2 * CHAINS * (self.cluster * self.steps + (self.tail > 0)) * CHAIN * 16

    @property
    def sum_bytes(self) -> int:
        """Of the global memory through which clusters exchange sums."""
        return self.blocks * CHAINS * self._exchanged if self.in_memory else 0

    @property
    def _exchanged(self) -> int:
        """Bytes that a block receives for one chain: three words for four sums, four at once."""
        sums = self.columns // self.cluster // 2
        return (self.cluster - 1) * -(-sums * 3 // 16) * 16 * CHAIN


def obstacle(layer: Layer) -> str | None:
    """Why the kernel cannot serve a layer, or None."""
    if common := launching.obstacle(layer, 9, "clusters of thread blocks"):
        return common
    units, gates = layer.units, layer.gates
    if layer.precision != "bf16":
        return f"it multiplies in bf16, and this is {layer.precision}"
    if units % 4:
        return f"it takes a multiple of 4 units, and this layer has {units}"
    major, minor = launching.capability(layer.device)
    if (major, minor) != (9, 0):
        return f"it needs Hopper's tensor cores (sm_90), and this GPU is an sm_{major}{minor}"
    room = _room(layer.device)
    if None in (layout(room, units, gates, "forward"), layout(room, units, gates, "backward")):
        return f"{units} units are more than this GPU's shared memory holds"
    return None


def layout(room: tuple[int, ...], units: int, gates: int, direction: str) -> Layout | None:
    """The fastest layout that fits; `room` is how many of each of CLUSTERS the GPU runs at once."""
    is_forward = direction == "forward"
    # Sums that go through memory take longer: that is for what fits in no other way.
    for in_memory in (False, True):
        for own, cluster in FORWARD if is_forward else BACKWARD:
            blocks = -(-units // (own * cluster)) * cluster
            columns = cluster * own * (gates if is_forward else 1)
            k_steps = -(-units // 16) * (1 if is_forward else gates)
            tail = 0
            if in_memory and is_forward and own == 16 and units // 16 % cluster == 0:
                k_steps, tail = units // 16, units % 16 // 4
            found = Layout(own, cluster, blocks, -(-k_steps // cluster), columns, tail, in_memory)
            fits = columns <= WIDEST and found.shared_bytes <= SHARED_BYTES
            if fits and blocks <= cluster * room[CLUSTERS.index(cluster)]:
                return found
    return None


# torch.compile calls this while tracing. It takes the device alone, because sizes may be symbols.
@constant_when_traced
def _room(device: torch.device) -> tuple[int, ...]:
    if not torch.cuda.is_available():
        return ENDLESS  # launching.capability assumes the best too
    return _measured_room(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _measured_room(device: int) -> tuple[int, ...]:
    return tuple(launching.clusters_at_once(device, size) for size in CLUSTERS)


@cache
def _prepared(
    device: int, unit: UnitText, units: int, gates: int, direction: str
) -> tuple[Layout, Module]:
    """The layout on this GPU, and the kernel that is compiled for it."""
    found = layout(_measured_room(device), units, gates, direction)
    assert found is not None, "obstacle() has made sure of it"
    constants = (
        ("H", units),
        ("OWN", found.own),
        ("CLUSTER", found.cluster),
        ("STEPS", found.steps),
        ("TAIL", found.tail),
        ("IN_MEMORY", int(found.in_memory)),
        ("BACKWARD", int(direction == "backward")),
    )
    multiply = _multiply_text(found.columns)
    module = launching.module(device, "grid", unit, "bf16", constants, (direction,), multiply)
    return found, module


def _multiply_text(columns: int) -> str:
    """CUDA text of wgmma for a number of columns: PTX wants every register named."""
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
        steps.run(work)  # the engine `graph`, which reads one number at a time
        return
    device = work.weight.device
    found, module = _prepared(device.index, work.unit, work.units, work.gates, work.direction)
    sums = 256 + found.chunk_bytes
    memory = torch.zeros(sums + found.sum_bytes, dtype=torch.uint8, device=device)
    board = Board(*(memory.data_ptr() + offset for offset in (0, 256, sums)))
    arguments = (*work.arguments(), board)
    module.launch(work.direction, found.blocks, THREADS, *arguments, cooperative=True)


def _is_aligned(work: Pass) -> bool:
    """Whether four bf16 can be read at once: a caller's tensor may start at any address."""
    addresses = (*work.addresses.all, pointer(work.projected).value or 0)
    return not any(address % 8 for address in addresses)
