"""The units of the paper under its own labels."""

from collections.abc import Callable
from typing import Any

from torch import nn

from rda.baselines import GRU, LSTM
from rda.labels import RDA_LABELS, UNIT_LABELS
from rda.layers import RDA, RWA
from rda.names import look_up


def _labelled(label: str, attention: str, output: str) -> Callable[..., nn.Module]:
    choices: dict[str, Any] = {"attention": attention, "hidden": "identity", "output": output}

    def construct(input_size: int, hidden_size: int, **options: Any) -> nn.Module:
        for name in choices.keys() & options.keys():
            raise TypeError(f"{name} is fixed by the label {label}; call rda.RDA to choose it")
        return RDA(input_size, hidden_size, **choices, **options)

    return construct


_CONSTRUCTORS: dict[str, Callable[..., nn.Module]] = {
    **{label: _labelled(label, *choices) for label, choices in RDA_LABELS.items()},
    "RWA": RWA,
    "LSTM": LSTM,
    "GRU": GRU,
}
UNITS = {label: _CONSTRUCTORS[label] for label in UNIT_LABELS}


def build(name: str, input_size: int, hidden_size: int, **options: Any) -> nn.Module:
    """A unit of the paper with section 6.1's initialisation.

    Args:
        name: "RDA-exp-tanh", "RDA-sigmoid-id", "RWA", "LSTM" or "GRU", or another RDA-f_a-f_o of
            section 6.2, such as "RDA-softplus-id".
        input_size: features of the input at each step.
        hidden_size: units.
        **options: whatever the unit's class takes, such as `batch_first` or
            `learn_initial_state`.
    """
    return look_up("unit", name, UNITS)(input_size, hidden_size, **options)
