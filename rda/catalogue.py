"""The five units of the paper under its own labels."""

from collections.abc import Callable
from typing import Any

from torch import nn

from rda.baselines import GRU, LSTM
from rda.layers import RDA, RWA
from rda.names import look_up


def _labelled(label: str, **choices: Any) -> Callable[..., nn.Module]:
    def construct(input_size: int, hidden_size: int, **options: Any) -> nn.Module:
        for name in choices.keys() & options.keys():
            raise TypeError(f"{name} is fixed by the label {label}; call rda.RDA to choose it")
        return RDA(input_size, hidden_size, **choices, **options)

    return construct


UNITS: dict[str, Callable[..., nn.Module]] = {
    "RDA-exp-tanh": _labelled("RDA-exp-tanh", attention="exp", hidden="identity", output="tanh"),
    "RDA-sigmoid-id": _labelled(
        "RDA-sigmoid-id", attention="sigmoid", hidden="identity", output="identity"
    ),
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
