"""The units of the package by name, and others that it does not contain."""

from importlib import import_module
from itertools import product
from pkgutil import iter_modules

import rda.units
from rda.symbolic.functions import log_sigmoid, relu, sigmoid, tanh, where
from rda.units import RDA, Unit


class Peephole(Unit):
    """An LSTM whose gates see the cell (Gers and Schmidhuber, 2000)."""

    inputs = recurrent = "i", "f", "g", "o"
    state = "h", "c"
    weights = "of_i", "of_f", "of_o"

    def step(self, x, h, s, w):
        i = sigmoid(x.i + h.i + w.of_i * s.c)
        f = sigmoid(x.f + h.f + w.of_f * s.c)
        c = f * s.c + i * tanh(x.g + h.g)
        return sigmoid(x.o + h.o + w.of_o * c) * tanh(c), c


class ConstantDecay(RDA):
    """An RDA whose discount is learned and the same at every step."""

    inputs = "u", "g", "a"
    recurrent = "g", "a"
    weights = ("gamma",)

    def step(self, x, h, s, *weights):
        (w,) = weights
        return self.average(x, h, s, s.l + log_sigmoid(w.gamma))


class Rectified(Unit):
    """A gated unit with ReLU, a condition and two states, whose h is a function of both."""

    inputs = "z", "n", "k"
    recurrent = "z", "n"
    state = "a", "b"

    def step(self, x, h, s):
        z = sigmoid(x.z + h.z)
        a = z * s.a + (1 - z) * relu(x.n + h.n)
        return a, where(x.k > 0, 0.5 * s.b + a, s.b)

    def hidden(self, s):
        return tanh(s.a + 0.1 * s.b)


def of_package():
    """Every unit that a file of rda/units defines; the RDA, which has choices, is in RDAS."""
    for file in iter_modules(rda.units.__path__, "rda.units."):
        for found in vars(import_module(file.name)).values():
            if isinstance(found, type) and issubclass(found, Unit) and found not in (Unit, RDA):
                yield found


PLAIN = {unit.__name__: unit() for unit in (*of_package(), Peephole, ConstantDecay, Rectified)}
RDAS = {
    "RDA-" + "-".join(names): RDA(*names)
    for names in product(
        ("exp", "relu", "softplus", "sigmoid"), ("identity", "tanh"), ("identity", "tanh")
    )
}
"""With each choice of f_a, f_h and f_o."""
