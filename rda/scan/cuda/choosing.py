"""Which way to run a unit on a GPU can serve, and which is quickest."""

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
"""Rows up to which blocks of their own beat clusters, by precision and units."""

MOST_ROWS_WITHOUT_CLUSTERS = 2048
"""And steps, where there are none: blocks wait in line, and a product for all rows does not."""

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


Question = Callable[[Layer], str | None]


class Way(NamedTuple):
    """One way: why it cannot serve a layer, why another is quicker, and how it runs."""

    obstacle: Question
    slower: Question
    run: Run


def _remembered(question: Question) -> Question:
    """For it is asked with every call, mostly about the same layers."""

    def answer(layer: Layer) -> str | None:
        # Whatever traces may have symbols for sizes.
        if torch.compiler.is_compiling() or not type(layer.units) is type(layer.batch) is int:
            return question(layer)
        return _known(question, layer)

    return answer


@lru_cache(maxsize=4096)
def _known(question: Question, layer: Layer) -> str | None:
    return question(layer)


def _quicker(layer: Layer, where: str) -> str:
    return f"{layer.batch} rows of {layer.units} units are quicker {where}"


def _most_rows(limits: dict[int, int], size: int) -> int:
    """The first limit whose size is not too small."""
    return next(rows for largest, rows in limits.items() if size <= largest)


def _slower_in_blocks(layer: Layer) -> str | None:
    most = MOST_ROWS_WITHOUT_CLUSTERS
    if WAYS["cuda"].obstacle(layer) is None:
        most = _most_rows(MOST_ROWS_OF_BLOCKS[layer.product], layer.units)
    return None if layer.batch <= most else _quicker(layer, "elsewhere")


def _slower_in_a_cluster(layer: Layer) -> str | None:
    blocks = onchip.cluster_size(layer.units)
    if layer.batch > _most_rows(MOST_ROWS[layer.product], blocks):
        return _quicker(layer, "step by step")
    if blocks <= BLOCKS_BESIDE_GRID or layer.batch not in QUICKER_ON_GRID:
        return None
    if WAYS["grid"].obstacle(layer) is not None:
        return None
    return _quicker(layer, "on the whole GPU")


def _slower_on_the_grid(layer: Layer) -> str | None:
    return None if layer.batch <= MOST_ROWS_OF_GRID else _quicker(layer, "step by step")


WAYS = {
    "block": Way(_remembered(block.obstacle), _remembered(_slower_in_blocks), block.run),
    "cuda": Way(_remembered(onchip.obstacle), _remembered(_slower_in_a_cluster), onchip.run),
    "grid": Way(_remembered(grid.obstacle), _remembered(_slower_on_the_grid), grid.run),
    "graph": Way(_remembered(steps.obstacle), lambda layer: None, steps.run),
}
"""By the engine's name, the one that is tried first first."""


def quickest(layer: Layer) -> str | None:
    """What runs a layer quickest; None where nothing can."""
    able = (name for name, way in WAYS.items() if way.obstacle(layer) is None)
    return next((name for name in able if WAYS[name].slower(layer) is None), None)
