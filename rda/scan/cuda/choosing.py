"""On chip or step by step: which can serve, and which is quicker."""

from collections.abc import Callable

from torch import Tensor

from rda.scan.cuda import onchip, steps

MOST_ROWS = {True: 10**9, False: 256}
"""Rows up to which the chip wins, by whether 8 blocks hold the layer (benchmarks/README.md)."""


def slower_on_chip(input: Tensor, units: int) -> str | None:
    """Why a layer that the chip holds is still quicker step by step, or None."""
    batch = input.shape[1]
    if batch <= MOST_ROWS[onchip.cluster_size(units) <= 8]:
        return None
    return f"{batch} rows of {units} units are quicker step by step"


def runner(input: Tensor, units: int) -> Callable[..., None] | None:
    """What runs a unit quickest; None where neither can."""
    if onchip.obstacle(input, units) is None and slower_on_chip(input, units) is None:
        return onchip.run
    return steps.run if steps.obstacle(input) is None else None
