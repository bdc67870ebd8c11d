"""Units by their keys, because an operator of torch takes strings and no objects."""

import copy
from functools import cache
from importlib import import_module
from operator import attrgetter

from rda.symbolic.derived import Derived
from rda.units.gru import GRU
from rda.units.lstm import LSTM
from rda.units.rda import RDA, RWA
from rda.units.rnn import RNN
from rda.units.unit import Unit

_OURS = {kind.__name__: kind for kind in (RDA, RWA)}
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
        _known[key] = _OURS[kind](*choices) if kind in _OURS else _imported(kind, key)
    return _known[key]


def _imported(place: str, key: str) -> Unit:
    """The unit of a class that can be imported and made without arguments."""
    module, _, name = place.partition(":")
    try:
        unit: Unit = attrgetter(name)(import_module(module))()
        if unit.key == key:
            return unit
    except Exception:  # whatever the module of another person raises
        pass
    raise KeyError(
        f"the unit {name} of {module} is not known in this process: call rda.units.register with "
        "one that computes the same"
    )


@cache
def derived(key: str, in_half: bool = False) -> Derived:
    """What follows from the definition of the unit of this key, found out once."""
    return Derived(find(key), in_half)
