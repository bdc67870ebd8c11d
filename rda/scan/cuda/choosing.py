"""Which GPU engines can run a layer, and which of them is fastest."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch

from rda.scan.cuda import block, grid, onchip, steps
from rda.scan.cuda.launching import Layer, Run

MOST_ROWS_OF_BLOCKS = {
    "tf32": {64: 2048, 112: 264, 128: 0},
    "fp32": {80: 2048, 112: 1024, 128: 128},
}
"""By precision and units: the largest batch size for which `block` is faster than `cuda`.

Each inner dict maps the most units of a range to that batch size."""

MOST_ROWS_WITHOUT_CLUSTERS = 2048
"""On GPUs without clusters, use `block` up to this batch size and `graph` above it: extra blocks
queue, one batched matmul does not."""

MOST_ROWS = {
    "tf32": {4: 2048, 8: 1024, 12: 384, 16: 192},
    "fp32": {4: 2048, 8: 1024},
    "bf16": {4: 2048, 8: 1024, 12: 256, 16: 192},
}
"""By precision and blocks of a cluster: the largest batch size for which `cuda` is faster than
`graph` (benchmarks/README.md)."""

BLOCKS_BESIDE_GRID, QUICKER_ON_GRID = 8, range(65, 129)
"""If a cluster needs more than this many blocks, `grid` is faster than `cuda` for batch sizes in
this range."""

MOST_ROWS_OF_GRID = 192
"""Largest batch size for `grid`. It runs 128 rows at once and runs the sequence again for the rest,
so it soon becomes slower than `graph`."""


Reason = Callable[[Layer], str | None]


class Way(NamedTuple):
    """One GPU engine.

    `obstacle` says why it cannot run a layer, `slower` why another engine is faster; both return
    None where there is no such reason. `run` runs it.
    """

    obstacle: Reason
    slower: Reason
    run: Run


def _cached(reason: Reason) -> Reason:
    """Cache the answers: every call of a layer asks, mostly about the same few layers."""

    def cached(layer: Layer) -> str | None:
        # Under tracing sizes may be symbols: nothing about those is cached.
        if torch.compiler.is_compiling() or not type(layer.units) is type(layer.batch) is int:
            return reason(layer)
        return _known(reason, layer)

    return cached


@lru_cache(maxsize=4096)
def _known(reason: Reason, layer: Layer) -> str | None:
    return reason(layer)


def _faster(layer: Layer, engine: str) -> str:
    return f"{layer.batch} rows of {layer.units} units are faster in {engine}"


def _most_rows(limits: dict[int, int], size: int) -> int:
    """The limit of the first range of sizes that contains `size`."""
    return next(rows for largest, rows in limits.items() if size <= largest)


def _block_is_slower(layer: Layer) -> str | None:
    most = MOST_ROWS_WITHOUT_CLUSTERS
    if WAYS["cuda"].obstacle(layer) is None:
        most = _most_rows(MOST_ROWS_OF_BLOCKS[layer.precision], layer.units)
    return None if layer.batch <= most else _faster(layer, "another engine")


def _cluster_is_slower(layer: Layer) -> str | None:
    blocks = onchip.cluster_size(layer.units)
    if layer.batch > _most_rows(MOST_ROWS[layer.precision], blocks):
        return _faster(layer, "graph")
    if blocks <= BLOCKS_BESIDE_GRID or layer.batch not in QUICKER_ON_GRID:
        return None
    if WAYS["grid"].obstacle(layer) is not None:
        return None
    return _faster(layer, "grid")


def _grid_is_slower(layer: Layer) -> str | None:
    return None if layer.batch <= MOST_ROWS_OF_GRID else _faster(layer, "graph")


WAYS = {
    "block": Way(_cached(block.obstacle), _cached(_block_is_slower), block.run),
    "cuda": Way(_cached(onchip.obstacle), _cached(_cluster_is_slower), onchip.run),
    "grid": Way(_cached(grid.obstacle), _cached(_grid_is_slower), grid.run),
    "graph": Way(_cached(steps.obstacle), lambda layer: None, steps.run),
}
"""The GPU engines by name, in the order in which they are tried."""


def quickest(layer: Layer) -> str | None:
    """The name of the fastest engine for a layer; None where no GPU engine can run it."""
    able = (name for name, engine in WAYS.items() if engine.obstacle(layer) is None)
    return next((name for name in able if WAYS[name].slower(layer) is None), None)
