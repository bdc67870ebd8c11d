"""The LSTM as in torch.nn.LSTM."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rda.symbolic.functions import sigmoid, tanh
from rda.units.unit import Unit


class LSTM(Unit):
    """c' = sigma(f) c + sigma(i) tanh(g),  h' = sigma(o) tanh(c')"""

    inputs = recurrent = "i", "f", "g", "o"
    state = "h", "c"
    biases: ClassVar[Mapping[str, float]] = {"f": 1.0}

    def step(self, x: Any, h: Any, s: Any) -> Any:
        c = sigmoid(x.f + h.f) * s.c + sigmoid(x.i + h.i) * tanh(x.g + h.g)
        return sigmoid(x.o + h.o) * tanh(c), c
