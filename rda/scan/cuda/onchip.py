"""A unit over time in one kernel, its weights on chip in a cluster of thread blocks."""

from rda.scan.cuda import launching
from rda.scan.cuda.launching import Layer, Pass

LARGEST = {"tf32": 512, "fp32": 256, "bf16": 512}
"""Units whose recurrent matrix the registers of a cluster hold."""
ROWS, THREADS = 8, 256


def obstacle(layer: Layer) -> str | None:
    """Why the kernel cannot serve a layer, or None."""
    common = launching.obstacle(layer, 9, "clusters of thread blocks")
    if common is not None:
        return common
    units, product = layer.units, layer.product
    if units > LARGEST[product]:
        return f"it holds {LARGEST[product]} units on chip in {product}, and these are {units}"
    if cluster_size(units) > 8:
        major, minor = launching.capability(layer.device)
        if major >= 12:
            return f"an sm_{major}{minor} has clusters of 8 blocks, and {units} units need more"
    return None


def cluster_size(units: int) -> int:
    """Blocks of 32 units each; a multiple of four, so that all warps have work backward."""
    return -(-units // 128) * 4


def run(work: Pass) -> None:
    """Queue a unit's forward or backward kernel."""
    cluster = cluster_size(work.units)
    constants = (("H", work.units), ("CLUSTER", cluster), *work.constants)
    kernels = launching.module(
        work.weight.device.index, "onchip", work.unit, work.product, constants,
        ("forward", "backward"),
    )  # fmt: skip
    blocks = -(-work.sizes.batch // ROWS) * cluster
    kernels.launch(work.direction, blocks, THREADS, *work.arguments())
