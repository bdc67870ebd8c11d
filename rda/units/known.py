"""Units by their keys, because an operator of torch takes strings and no objects."""

from functools import cache

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
    _known.setdefault(key, unit)
    return key


def find(key: str) -> Unit:
    """The unit of this key."""
    if key not in _known:
        kind, *choices = key.split()
        if kind not in _OURS:
            raise KeyError(f"no unit {key} is known in this process: make a layer of it first")
        _known[key] = _OURS[kind](*choices)
    return _known[key]


@cache
def derived(key: str, in_half: bool = False) -> Derived:
    """What follows from the definition of the unit of this key, found out once."""
    return Derived(find(key), in_half)
