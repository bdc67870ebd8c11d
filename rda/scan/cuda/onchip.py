"""The engine `cuda`: one kernel for the whole sequence, the weights in a cluster's registers."""

from rda.scan.cuda import launching
from rda.scan.cuda.launching import Layer, Pass

LARGEST = {"tf32": 512, "fp32": 256, "bf16": 512}
"""Most units whose recurrent weights fit the registers of a cluster, by precision."""
ROWS, THREADS = 8, 256
"""Batch rows of a cluster and threads of a block, as in onchip.cu."""


def obstacle(layer: Layer) -> str | None:
    """Why the kernel cannot serve a layer, or None."""
    common = launching.obstacle(layer, 9, "clusters of thread blocks")
    if common is not None:
        return common
    units, precision = layer.units, layer.precision
    if units > LARGEST[precision]:
        return (
            f"it holds {LARGEST[precision]} units on chip in {precision}, "
            f"and this layer has {units}"
        )
    if cluster_size(units) > 8:
        major, minor = launching.capability(layer.device)
        if major >= 12:
            return f"an sm_{major}{minor} has clusters of 8 blocks, and {units} units need more"
    return None


def cluster_size(units: int) -> int:
    """How many blocks of 32 units a cluster has.

    It is a multiple of four, so that all warps have work in the backward pass.
    """
    return -(-units // 128) * 4


def run(work: Pass) -> None:
    """Queue a unit's forward or backward kernel."""
    cluster = cluster_size(work.units)
    constants = (("H", work.units), ("CLUSTER", cluster), *work.constants)
    kernels = launching.module(
        work.weight.device.index, "onchip", work.unit, work.precision, constants,
        ("forward", "backward"),
    )  # fmt: skip
    blocks = -(-work.sizes.batch // ROWS) * cluster
    kernels.launch(work.direction, blocks, THREADS, *work.arguments())
