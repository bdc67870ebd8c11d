"""Units by their keys, because an operator of torch takes strings and no objects."""

import copy
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

import torch

from rda.activations import Choices
from rda.symbolic.derived import Derived
from rda.units.gru import GRU
from rda.units.lstm import LSTM
from rda.units.rda import RDA, RWA, CarriedRDA, CarriedRWA
from rda.units.rnn import RNN
from rda.units.unit import Unit

AVERAGES = {kind.__name__: kind for kind in (RDA, RWA, CarriedRDA, CarriedRWA)}
"""The units with a choice of functions, by name."""
_known: dict[str, Unit] = {one.key: one for one in (LSTM(), GRU(), RNN())}


def register(unit: Unit) -> str:
    """The key of a unit, by which it is found from now on."""
    key = unit.key
    if key not in _known:
        _known[key] = copy.copy(unit)  # what happens to the other is not this one's
    return key


def find(key: str) -> Unit:
    """The unit of this key."""
    if key not in _known:
        kind, *choices = key.split()
        _known[key] = AVERAGES[kind](*choices) if kind in AVERAGES else _made(kind, key)
    return _known[key]


def unit_of(choices: Choices, kind: str = "") -> tuple[Unit, str]:
    """The unit with these functions, and its key; the key is empty where it cannot be traced."""
    kind = kind or ("RDA" if choices.discount else "RWA")
    functions = (choices.attention, choices.hidden, choices.output)
    if all(isinstance(function, str) for function in functions):
        return named_unit(kind, *map(str, functions))
    resolved = zip(functions, (choices.f_a, choices.f_h, choices.f_o), strict=True)
    made = AVERAGES[kind](
        *(name if isinstance(name, str) else function for name, function in resolved)
    )
    # A program that is traced may run where nobody knows this unit.
    is_traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return made, "" if is_traced else key_of(made)


def named_unit(kind: str, attention: str, hidden: str, output: str) -> tuple[Unit, str]:
    """The unit of `AVERAGES` with the paper's functions of these names, and its key."""
    key = f"{kind} {attention} {hidden} {output}"
    return find(key), key


def key_of(unit: Unit) -> str:
    """The key of a unit; empty where it calls functions that cannot be traced."""
    try:
        return register(unit)
    except Exception:  # whatever a user's function raises when it gets an expression
        return ""


def _made(place: str, key: str) -> Unit:
    """The unit of a class of a module that is imported already, made without arguments.

    A key comes with a saved program, perhaps from a stranger: nothing is imported because it names
    it, except our own units, and nothing is called that is no unit.
    """
    module, _, name = place.partition(":")
    if module.startswith("rda.units."):
        with suppress(ImportError):
            import_module(module)
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)  # no code runs, as it may in `getattr`
    if isinstance(found, type) and issubclass(found, Unit):
        with suppress(Exception):  # whatever the class of another person raises
            unit = found()
            if unit.key == key:
                return unit
    known_first = "" if module in sys.modules else f"import {module} before the program is run, or "
    raise KeyError(
        f"the unit {name} of {module} is not known in this process: {known_first}call "
        "rda.units.register with a unit that computes the same"
    )


@cache
def derived(key: str, in_half: bool = False) -> Derived:
    """What follows from the definition of the unit of this key, found out once."""
    return Derived(find(key), in_half)
