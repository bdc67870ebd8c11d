"""The engine `cuda`: one kernel for the whole sequence, the weights in a cluster's registers."""

import os
from typing import Final

from rda.scan.cuda import launching
from rda.scan.cuda.launching import Layer, Pass

LARGEST = 512
"""Most units whose recurrent weights fit the registers of a cluster."""
FEW_ROWS, MANY_ROWS = 8, 16
"""Batch rows of a cluster; a block has a warp of 32 threads for each."""
MANY_ROWS_CLUSTER = 8
"""Blocks of the clusters that can have many rows: others have too few units for as many warps, or
too many weights for the registers of a thread."""
COST_OF_MANY = {"tf32": 1.5, "fp32": 1.5, "bf16": 1.8}
"""A step of many rows beside one of few while clusters wait for each other, on an H200."""
SHARED: Final = "RDA_GPU_SHARED"
"""The environment variable that says that other processes use the GPU at the same time."""


def obstacle(layer: Layer) -> str | None:
    """Why the kernel cannot serve a layer, or None."""
    if common := launching.obstacle(layer, 9, "clusters of thread blocks"):
        return common
    units = layer.units
    if units > LARGEST:
        return f"it holds {LARGEST} units on chip, and this layer has {units}"
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


def cluster_rows(device: int, cluster: int, batch: int, precision: str) -> int:
    """How many rows of the batch a cluster has.

    A step of many takes longer than one of few, and two processes or two halves of a large batch
    run at once where they would otherwise wait for each other.
    """
    if cluster != MANY_ROWS_CLUSTER or batch <= FEW_ROWS:
        return FEW_ROWS
    if SHARED in os.environ:
        return MANY_ROWS
    at_once = launching.clusters_at_once(device, cluster)
    few, many = (-(-batch // (rows * at_once)) for rows in (FEW_ROWS, MANY_ROWS))
    return MANY_ROWS if many * COST_OF_MANY[precision] < few else FEW_ROWS


def run(work: Pass) -> None:
    """Queue a unit's forward or backward kernel."""
    cluster = cluster_size(work.units)
    device = work.weight.device.index
    rows = cluster_rows(device, cluster, work.sizes.batch, work.precision)
    constants = (("H", work.units), ("CLUSTER", cluster), ("ROWS", rows))
    kernels = launching.module(
        device, "onchip", work.unit, work.precision, constants, ("forward", "backward")
    )
    blocks = -(-work.sizes.batch // rows) * cluster
    kernels.launch(work.direction, blocks, 32 * rows, *work.arguments())
