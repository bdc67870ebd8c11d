"""The GRU as in torch.nn.GRU."""

from typing import Any

from rda.symbolic.functions import sigmoid, tanh
from rda.units.unit import Unit


class GRU(Unit):
    """n = tanh(x_n + sigma(r) (h_n + b_n)),  h' = n + sigma(z) (h - n)

    The reset gate r multiplies the product W h, not h, and so also the bias of that product.
    """

    inputs = "n", "r", "z"  # gates that see x alone come first in the engines
    recurrent = "r", "z", "n"
    state = ("h",)
    weights = ("bias_n",)

    def step(self, x: Any, h: Any, s: Any, w: Any) -> Any:
        r, z = sigmoid(x.r + h.r), sigmoid(x.z + h.z)
        n = tanh(x.n + r * (h.n + w.bias_n))
        return (n + z * (s.h - n),)
