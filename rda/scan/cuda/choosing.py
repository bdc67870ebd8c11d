"""Which way to run a unit on a GPU can serve, and which is quickest."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from rda.scan.cuda import grid, onchip, steps
from rda.scan.cuda.launching import Run, product_for

MOST_ROWS = {
    "tf32": {4: 2048, 8: 1024, 12: 384, 16: 192},
    "fp32": {4: 2048, 8: 1024},
    "bf16": {4: 2048, 8: 1024, 12: 256, 16: 192},
}
"""Rows up to which a cluster beats steps, by precision and its blocks (benchmarks/README.md)."""

BLOCKS_BESIDE_GRID, QUICKER_ON_GRID = 8, range(65, 129)
"""A cluster of more blocks takes longer than the whole GPU for so many rows."""

MOST_ROWS_OF_GRID = 192
"""The whole GPU does 128 rows at once, starts again for others, and then soon takes longer."""


class Layer(NamedTuple):
    """What decides: an input, and the size of the layer that is to run on it."""

    input: Tensor
    units: int
    gates: int
    batch: int


class Way(NamedTuple):
    """One way: why it cannot serve a layer, why another is quicker, and how it runs."""

    obstacle: Callable[[Layer], str | None]
    slower: Callable[[Layer], str | None]
    run: Run


def _quicker(layer: Layer, where: str) -> str:
    return f"{layer.batch} rows of {layer.units} units are quicker {where}"


def _slower_in_a_cluster(layer: Layer) -> str | None:
    blocks = onchip.cluster_size(layer.units)
    product = product_for(layer.input, layer.units)
    most = next(rows for largest, rows in MOST_ROWS[product].items() if blocks <= largest)
    if layer.batch > most:
        return _quicker(layer, "step by step")
    if blocks <= BLOCKS_BESIDE_GRID or layer.batch not in QUICKER_ON_GRID:
        return None
    if WAYS["grid"].obstacle(layer) is not None:
        return None
    return _quicker(layer, "on the whole GPU")


def _slower_on_the_grid(layer: Layer) -> str | None:
    return None if layer.batch <= MOST_ROWS_OF_GRID else _quicker(layer, "step by step")


WAYS = {
    "cuda": Way(
        lambda layer: onchip.obstacle(layer.input, layer.units), _slower_in_a_cluster, onchip.run
    ),
    "grid": Way(
        lambda layer: grid.obstacle(layer.input, layer.units, layer.gates),
        _slower_on_the_grid,
        grid.run,
    ),
    "graph": Way(
        lambda layer: steps.obstacle(layer.input, layer.units, layer.batch),
        lambda layer: None,
        steps.run,
    ),
}
"""By the engine's name, the one that is tried first first."""


def quickest(layer: Layer) -> str | None:
    """What runs a layer quickest; None where nothing can."""
    able = (name for name, way in WAYS.items() if way.obstacle(layer) is None)
    return next((name for name in able if WAYS[name].slower(layer) is None), None)
