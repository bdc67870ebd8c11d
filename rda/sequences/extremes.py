"""Numbers that are too large to be measurements."""

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e100
"""Numbers beyond this are marks for what is missing, not measurements; their squares overflow."""


def tame(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Infinite where numbers are beyond LARGEST."""
    extremes = (np.fmin.reduce(values, None), np.fmax.reduce(values, None)) if values.size else ()
    if not any(abs(one) > LARGEST for one in extremes):
        return values
    return np.where(np.abs(values) > LARGEST, np.inf, values)


def without_infinities(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Missing where they are infinite: a file has no other way to say that it knows nothing."""
    wild = np.isinf(values)
    return np.where(wild, np.nan, values) if wild.any() else values
