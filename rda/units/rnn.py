"""The plain recurrent network, as torch.nn.RNN with tanh."""

from typing import Any

from rda.symbolic.functions import tanh
from rda.units.unit import Unit


class RNN(Unit):
    """h' = tanh(x + W h)"""

    inputs = recurrent = ("a",)
    state = ("h",)

    def step(self, x: Any, h: Any, s: Any) -> Any:
        return (tanh(x.a + h.a),)
