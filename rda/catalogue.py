"""The five units of the paper under its own labels."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from rda.baselines import GRU, LSTM
from rda.layers import RDA, RWA
from rda.names import look_up

UNITS: dict[str, Callable[..., nn.Module]] = {
    "RDA-exp-tanh": partial(RDA, attention="exp", hidden="identity", output="tanh"),
    "RDA-sigmoid-id": partial(RDA, attention="sigmoid", hidden="identity", output="identity"),
    "RWA": RWA,
    "LSTM": LSTM,
    "GRU": GRU,
}


def build(name: str, input_size: int, hidden_size: int, **options: Any) -> nn.Module:
    """A unit of the paper with section 6.1's initialisation.

    Args:
        name: one of "RDA-exp-tanh", "RDA-sigmoid-id", "RWA", "LSTM", "GRU".
        input_size: features of the input at each step.
        hidden_size: units.
        **options: whatever the unit's class takes, such as `batch_first` or
            `learn_initial_state`.
    """
    return look_up("unit", name, UNITS)(input_size, hidden_size, **options)
