"""The state that cells and layers return and accept."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self, overload

import torch
from torch import Tensor
from torch.utils import _pytree

from rda.activations import log_from_weight
from rda.equations import LogState, weight_from_log
from rda.precision import in_dtype

_MISSING = object()  # None may stand in a state: torch maps functions over its parts


class _Pair(NamedTuple):
    average: Tensor
    weight: Tensor


class State(_Pair):
    """Two tensors with the shapes of nn.LSTM's (h, c).

    `average` is r = n / d. `weight` is log(1 + d), the weight that this average has: zero means no
    history, so a state of zeros is the same as no state. The weight is at least float32, because
    half precision cannot hold it.

    A named tuple that is also made from an iterable, as any tuple is: `State(average, weight)` or
    `State(part.detach() for part in state)`.
    """

    __slots__ = ()

    @overload
    def __new__(cls, average: Iterable[Tensor], /) -> Self: ...
    @overload
    def __new__(cls, average: Tensor, weight: Tensor) -> Self: ...
    def __new__(cls, average: Any, weight: Any = _MISSING) -> Self:
        if weight is not _MISSING:
            return tuple.__new__(cls, (average, weight))
        if isinstance(average, Tensor):
            raise TypeError("State should be given average and weight, got average alone")
        return cls._make(average)


# So that torch.export can save what returns a state, and torch.load reads one by default.
_pytree._register_namedtuple(State, serialized_type_name="rda.State")
torch.serialization.add_safe_globals([State])


def to_log(state: State, dtype: torch.dtype) -> LogState:
    """The state in the form that the equations use."""
    weight = in_dtype(state.weight, dtype)
    return LogState(in_dtype(state.average, dtype), log_from_weight(weight))


def from_log(state: LogState, average_dtype: torch.dtype) -> State:
    """The state in the form that users carry."""
    return State(in_dtype(state.r, average_dtype), weight_from_log(state.l))
