"""The state that cells and layers hand out and take back."""

from typing import NamedTuple

import torch
from torch import Tensor

from rda.equations import LogState, log_from_weight, weight_from_log
from rda.precision import in_dtype


class State(NamedTuple):
    """Two tensors shaped as nn.LSTM's (h, c).

    `average` is r = n / d. `weight` is log(1 + d), what stands behind that average: zero
    means no history, so a state of zeros is the same as no state. It is at least float32
    whatever the dtype of the rest, because half precision cannot hold it.
    """

    average: Tensor
    weight: Tensor


def to_log(state: State, dtype: torch.dtype) -> LogState:
    """The state as the equations keep it."""
    return LogState(state.average.to(dtype), log_from_weight(state.weight.to(dtype)))


def from_log(state: LogState, average_dtype: torch.dtype) -> State:
    """The state as users carry it."""
    return State(in_dtype(state.r, average_dtype), weight_from_log(state.l))
