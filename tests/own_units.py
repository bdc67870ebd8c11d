"""The units of the package by name, and others that it does not contain."""

from importlib import import_module
from itertools import product
from pkgutil import iter_modules

import rda.units
from rda.symbolic.functions import exp, log_sigmoid, relu, sigmoid, tanh, where
from rda.units import RDA, Part, Unit


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


def unit(step, state=("h",), **attributes):
    names = {"inputs": ("a",), "recurrent": ("a",), "state": state, "step": step}
    return type("Mine", (Unit,), {**names, **attributes})()


def _twice(self, x, h, s):
    v = tanh(x.a + h.a + s.p * s.q)
    return v, v


HARD = {
    "a part named hidden": unit(
        lambda self, x, h, s: (tanh(x.a + h.a) + 0.5 * s.hidden, 0.9 * s.hidden + x.a),
        ("c", "hidden"),
    ),
    "a part named output": unit(
        lambda self, x, h, s: (tanh(x.a + h.a + s.output), 0.5 * s.output + x.a), ("c", "output")
    ),
    "a gate that is a state": unit(lambda self, x, h, s: (tanh(x.a + h.a), x.a), ("h", "seen")),
    "a comparison as a number": unit(
        lambda self, x, h, s: (tanh(x.a + h.a) + 0.5 * (x.a > 0.1), 1.0 * (h.a < 0)), ("h", "c")
    ),
    "a comparison as a state": unit(
        lambda self, x, h, s: (tanh(x.a + h.a) * s.on, x.a > 0.1), ("h", "on")
    ),
    "a comparison of comparisons": unit(
        lambda self, x, h, s: (where((x.a > 0.0) < (h.a > 0.0), tanh(x.a), sigmoid(h.a)),)
    ),
    "a constant state": unit(
        lambda self, x, h, s: (tanh(x.a + h.a) * s.one, s.one * 0 + 1.0), ("h", "one")
    ),
    "a sum that is h": unit(
        lambda self, x, h, s: (s.total + tanh(x.a + h.a),),
        (Part("total", is_sum=True),),
        output=lambda self, s: tanh(s.total),
    ),
    "a sum of W h and W x, in this order": unit(lambda self, x, h, s: (tanh(h.a + x.a),)),
    "an output of two steps": unit(
        lambda self, x, h, s: (s.new, tanh(x.a + h.a + s.last)),
        ("last", "new"),
        hidden=lambda self, s: s.new,
        output=lambda self, s: s.last * s.new,
    ),
    "an h of two steps": unit(
        lambda self, x, h, s: (tanh(x.a + h.a), s.new),
        ("new", "last"),
        hidden=lambda self, s: s.new + 0.5 * s.last,
        output=lambda self, s: s.new,
    ),
    "two equal parts": unit(_twice, ("p", "q"), hidden=lambda self, s: s.q),
    "two equal parts and the square of one": unit(
        _twice, ("p", "q"), hidden=lambda self, s: s.q, output=lambda self, s: s.p * s.p
    ),
    "an h that is a part, but not at first": unit(
        lambda self, x, h, s: (v := 0.5 * s.p + tanh(x.a + h.a + 0.1 * s.q), tanh(v)),
        ("p", "q"),
        hidden=lambda self, s: tanh(s.p),
    ),
    "an h that is not 0 where the state is": unit(
        lambda self, x, h, s: (0.5 * s.p + tanh(x.a + h.a),),
        ("p",),
        hidden=lambda self, s: sigmoid(s.p),
        output=lambda self, s: s.p,
    ),
    "an h that is infinite where the state is 0": unit(
        lambda self, x, h, s: (0.5 * s.n + x.a, s.d + exp(0.1 * tanh(h.a))),
        ("n", Part("d", start=1.0)),
        hidden=lambda self, s: s.n / s.d,
        output=lambda self, s: tanh(s.n / s.d),
    ),
    "parts named as in a kernel": unit(
        lambda self, x, h, s: (
            tanh(x.a + h.a) + 0.5 * s.last + s.gates,
            0.9 * s.last + x.a,
            0.3 * s.gates + 0.2 * x.a,
        ),
        ("c", "last", "gates"),
    ),
    "a sum that is in h": unit(
        lambda self, x, h, s: (s.total + tanh(x.a + h.a),),
        (Part("total", is_sum=True),),
        hidden=lambda self, s: tanh(s.total),
        output=lambda self, s: sigmoid(s.total),
    ),
    "constants that are functions of numbers": unit(
        lambda self, x, h, s: (where(1.0 < 2.0, tanh(x.a + h.a) * tanh(0.0 * x.a + 0.5), x.a),)
    ),
    "numbers alone": unit(
        lambda self, x, h, s: (
            tanh(x.a + h.a)
            + where(x.a > 0, 0.1, 0.2) * tanh(0.3)
            + where(x.a > 0.2, x.a > 0.4, 0.7)
            + where(True, 0.1, 0.2)
            + 0.1 * (x.a > 0.3),
        ),
        hidden=lambda self, s: s.h + where(s.h > 0.3, 0.1, 0.1),
        output=lambda self, s: s.h + where(s.h > 0.3, 0.7, 0.7) / 3.0,
    ),
    "an h and an output of numbers alone": unit(
        lambda self, x, h, s: (tanh(x.a + h.a),),
        hidden=lambda self, s: tanh(where(1.0 < 2.0, 0.1, s.h)),
        output=lambda self, s: where(s.h > 0.0, 0.2, 0.2),
    ),
    "a state that is a number": unit(
        lambda self, x, h, s: (tanh(x.a + h.a) * s.k, where(1.0 < 2.0, 0.7, s.k)), ("h", "k")
    ),
    "a block of W h that nothing uses": unit(
        lambda self, x, h, s, w: (0.5 * s.h + x.a,), weights=("w",)
    ),
    "nothing of what it is given is used": unit(lambda self, x, h, s: (0.5 * s.h + 0.1,)),
    "a state of weights alone": unit(
        lambda self, x, h, s, w: (tanh(x.a + h.a) * w.w + 0.1 * s.k, w.w),
        ("h", "k"),
        weights=("w",),
    ),
}
"""Units that look harmless and are not: each was wrong once."""
