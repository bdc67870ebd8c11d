"""The Recurrent Discounted Attention unit and the Recurrent Weighted Average: sections 5 and 3."""

from collections.abc import Callable
from typing import Any, ClassVar

from rda.symbolic import functions as f
from rda.units.unit import Names, Part, Unit

LOG_ATTENTION: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x,
    "relu": f.log_relu,
    "softplus": f.log_softplus,
    "sigmoid": f.log_sigmoid,
}
"""log f_a, because no logit can overflow it."""
OUTPUT: dict[str, Callable[[Any], Any]] = {"identity": lambda x: x, "tanh": f.tanh}


class RDA(Unit):
    """z = u tanh(g),  n' = n gamma + z a,  d' = d gamma + a,  h = f_h(n / d),  o = f_o(h)

    The state is the average r = n / d and l = log d, the logarithm of the weight behind it.
    """

    inputs: ClassVar[Names] = ("u", "g", "a", "gamma")
    recurrent: ClassVar[Names] = ("g", "a", "gamma")
    state = "r", Part("l", start=-f.INFINITY, is_sum=True)

    def __init__(
        self, attention: str = "exp", hidden: str = "identity", output: str = "tanh"
    ) -> None:
        self.log_f_a, self.f_h, self.f_o = LOG_ATTENTION[attention], OUTPUT[hidden], OUTPUT[output]

    def step(self, x: Any, h: Any, s: Any) -> Any:
        return self.average(x, h, s, s.l + f.log_sigmoid(x.gamma + h.gamma))

    def average(self, x: Any, h: Any, s: Any, kept: Any) -> Any:
        """The average of the past, whose weight is now e^kept, and the new features."""
        z = x.u * f.tanh(x.g + h.g)
        log_a = self.log_f_a(x.a + h.a)
        p = f.log_ratio(log_a, kept)
        return self.state_type(r=f.blend(s.r, z, p), l=f.log_sum(kept, log_a, p))

    def hidden(self, s: Any) -> Any:
        return self.f_h(s.r)

    def output(self, s: Any) -> Any:
        return self.f_o(self.hidden(s))


class RWA(RDA):
    """The RDA without a discount: the past keeps its weight."""

    inputs = "u", "g", "a"
    recurrent = "g", "a"

    def __init__(
        self, attention: str = "exp", hidden: str = "tanh", output: str = "identity"
    ) -> None:
        super().__init__(attention, hidden, output)

    def step(self, x: Any, h: Any, s: Any) -> Any:
        return self.average(x, h, s, s.l)
