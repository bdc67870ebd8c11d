"""Which GPU engine is the fastest for a layer, by measured limits."""

from rda.scan.cuda import grid, onchip
from rda.scan.cuda.launching import Layer

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
    "tf32": {128: 2048, 256: 1024, 384: 384, 512: 192},
    "fp32": {128: 2048, 256: 1024, 384: 392, 448: 280, 512: 392},
    "bf16": {128: 2048, 256: 1024, 384: 256, 512: 192},
}
"""By precision and units: the largest batch size for which `cuda` is faster than `graph`
(benchmarks/README.md). A cluster takes as long for 400 units as for 512, and `graph` does not."""

BLOCKS_BESIDE_GRID, QUICKER_ON_GRID = 8, range(65, 129)
"""If a cluster needs more than this many blocks, `grid` is faster than `cuda` for batch sizes in
this range."""

MOST_ROWS_OF_GRID = 192
"""Largest batch size for `grid`. It runs 128 rows at once and runs the sequence again for the rest,
so it soon becomes slower than `graph`."""


def _faster(layer: Layer, engine: str) -> str:
    return f"{layer.batch} rows of {layer.units} units are faster in {engine}"


def _most_rows(limits: dict[int, int], size: int) -> int:
    """The limit of the first range of sizes that contains `size`."""
    return next(rows for largest, rows in limits.items() if size <= largest)


def block_is_slower(layer: Layer) -> str | None:
    """Why another engine is faster than `block`, or None; the others say it of their own."""
    most = MOST_ROWS_WITHOUT_CLUSTERS
    if onchip.obstacle(layer) is None:
        most = _most_rows(MOST_ROWS_OF_BLOCKS[layer.precision], layer.units)
    return None if layer.batch <= most else _faster(layer, "another engine")


def cluster_is_slower(layer: Layer) -> str | None:
    """The same of `cuda`."""
    if layer.batch > _most_rows(MOST_ROWS[layer.precision], layer.units):
        return _faster(layer, "graph")
    is_large = onchip.cluster_size(layer.units) > BLOCKS_BESIDE_GRID
    if is_large and layer.batch in QUICKER_ON_GRID and grid.obstacle(layer) is None:
        return _faster(layer, "grid")
    return None


def grid_is_slower(layer: Layer) -> str | None:
    """The same of `grid`."""
    return None if layer.batch <= MOST_ROWS_OF_GRID else _faster(layer, "graph")
