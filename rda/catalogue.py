"""The units of the paper under its own labels."""

from collections.abc import Callable
from typing import Any, Literal, overload

from rda import baselines, units
from rda.baselines import GRU, LSTM
from rda.labels import RDA_LABELS, UNIT_LABELS, RDALabel, unit_label
from rda.layers import RDA, RWA
from rda.scan import dispatch

Unit = RDA | RWA | LSTM | GRU


def _labelled(label: str, attention: str, output: str) -> Callable[..., RDA]:
    choices: dict[str, Any] = {"attention": attention, "hidden": "identity", "output": output}

    def construct(input_size: int, hidden_size: int, **options: Any) -> RDA:
        for name in choices.keys() & options.keys():
            raise TypeError(f"{name} is fixed by the label {label}; call rda.RDA to choose it")
        return RDA(input_size, hidden_size, **choices, **options)

    return construct


_CONSTRUCTORS: dict[str, Callable[..., Unit]] = {
    **{label: _labelled(label, *choices) for label, choices in RDA_LABELS.items()},
    "RWA": RWA,
    "LSTM": LSTM,
    "GRU": GRU,
}
UNITS = {label: _CONSTRUCTORS[label] for label in UNIT_LABELS}


def check_engine(unit: str, engine: str) -> None:
    """Raise for a name that is no engine of this unit, as `build` does."""
    of_baselines = unit_label(unit) in ("LSTM", "GRU")
    (baselines if of_baselines else dispatch).check_engine_name(engine)


@overload
def build(name: RDALabel, input_size: int, hidden_size: int, **options: Any) -> RDA: ...
@overload
def build(name: Literal["RWA"], input_size: int, hidden_size: int, **options: Any) -> RWA: ...
@overload
def build(name: Literal["LSTM"], input_size: int, hidden_size: int, **options: Any) -> LSTM: ...
@overload
def build(name: Literal["GRU"], input_size: int, hidden_size: int, **options: Any) -> GRU: ...
@overload
def build(name: str, input_size: int, hidden_size: int, **options: Any) -> Unit: ...
def build(name: str, input_size: int, hidden_size: int, **options: Any) -> Unit:
    """A unit of the paper with the initialisation of section 6.1.

    Args:
        name: "RDA-exp-tanh", "RDA-sigmoid-id", "RWA", "LSTM" or "GRU", or another RDA-f_a-f_o of
            section 6.2, such as "RDA-softplus-id". "RDA" is RDA-exp-tanh.
        input_size: number of input features at each step.
        hidden_size: number of units.
        **options: any option of the unit's class, such as `batch_first` or
            `learn_initial_state`.
    """
    kind = name if isinstance(name, type) else type(name)
    if issubclass(kind, units.Unit):
        raise TypeError(
            f"name should be the label of a unit of the paper, got the unit {kind.__name__}: write "
            f"rda.Recurrent({kind.__name__}(), {input_size}, {hidden_size})"
        )
    return UNITS[unit_label(name)](input_size, hidden_size, **options)
