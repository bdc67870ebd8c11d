"""On chip or step by step: which can serve, and which is quicker."""

from collections.abc import Callable

from torch import Tensor

from rda.scan.cuda import onchip, steps
from rda.scan.cuda.launching import product_for

MOST_ROWS = {
    "tf32": {4: 2048, 8: 768, 16: 256},
    "fp32": {4: 2048, 8: 768},
    "bf16": {4: 2048, 8: 512, 16: 192},
}
"""Rows up to which the chip wins, by precision and blocks in a cluster (docs/kernels.md)."""


def slower_on_chip(input: Tensor, units: int, batch: int) -> str | None:
    """Why a layer that the chip holds is still quicker step by step, or None."""
    blocks = onchip.cluster_size(units)
    most = MOST_ROWS[product_for(input, units)]
    if batch <= next(rows for largest, rows in most.items() if blocks <= largest):
        return None
    return f"{batch} rows of {units} units are quicker step by step"


def runner(input: Tensor, units: int, batch: int) -> Callable[..., None] | None:
    """What runs a unit quickest; None where neither can."""
    if onchip.obstacle(input, units) is None and slower_on_chip(input, units, batch) is None:
        return onchip.run
    return steps.run if steps.obstacle(input, units) is None else None
