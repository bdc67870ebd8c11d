"""The Recurrent Discounted Attention unit and the Recurrent Weighted Average: sections 5 and 3."""

from collections.abc import Callable, Mapping
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
Choice = str | Callable[[Any], Any]
"""A name of the tables above, or a function of one value."""


def averaged(r: Any, z: Any, log_a: Any, kept: Any) -> tuple[Any, Any]:
    """The average r, whose weight is e^kept, and z with the weight a: their average, and log d.

    If neither has any weight, the paper divides 0 by 0. Here the average stays as it is.
    """
    p = f.log_ratio(log_a, kept)
    return f.blend(r, z, p), f.log_sum(kept, log_a, p)


class RDA(Unit):
    """z = u tanh(g),  n' = n gamma + z a,  d' = d gamma + a,  h = f_h(n / d),  o = f_o(h)

    The state is the average r = n / d and l = log d, the logarithm of the weight behind it.
    """

    inputs: ClassVar[Names] = ("u", "g", "a", "gamma")
    recurrent: ClassVar[Names] = ("g", "a", "gamma")
    state: ClassVar[tuple[str | Part, ...]] = "r", Part("l", start=-f.INFINITY, is_sum=True)

    biases: ClassVar[Mapping[str, float]] = {"gamma": 1.0}

    def __init__(
        self, attention: Choice = "exp", hidden: Choice = "identity", output: Choice = "tanh"
    ) -> None:
        self.choices = attention, hidden, output

    def log_f_a(self, x: Any) -> Any:
        """log f_a, of a function of the user's too."""
        attention = self.choices[0]
        if isinstance(attention, str):
            return LOG_ATTENTION[attention](x)
        return f.log_of_weight(attention(x))

    def f_h(self, x: Any) -> Any:
        """The hidden state of an average."""
        return _chosen(self.choices[1], x)

    def f_o(self, x: Any) -> Any:
        """The output of a hidden state."""
        return _chosen(self.choices[2], x)

    @property
    def key(self) -> str:
        """The choices by name, which say all."""
        is_ours = type(self).__module__ == __name__
        if is_ours and all(isinstance(choice, str) for choice in self.choices):
            return f"{type(self).__name__} {' '.join(map(str, self.choices))}"
        return super().key

    def step(self, x: Any, h: Any, s: Any) -> Any:
        return self.average(x, h, s, s.l + f.log_sigmoid(x.gamma + h.gamma))

    def average(self, x: Any, h: Any, s: Any, kept: Any) -> Any:
        """The average of the past, whose weight is now e^kept, and the new features."""
        z = x.u * f.tanh(x.g + h.g)
        return averaged(s.r, z, self.log_f_a(x.a + h.a), kept)

    def hidden(self, s: Any) -> Any:
        return self.f_h(s.r)

    def output(self, s: Any) -> Any:
        return self.f_o(self.hidden(s))


class RWA(RDA):
    """The RDA without a discount: the past keeps its weight."""

    inputs = "u", "g", "a"
    recurrent = "g", "a"
    biases: ClassVar[Mapping[str, float]] = {}

    def __init__(
        self, attention: Choice = "exp", hidden: Choice = "tanh", output: Choice = "identity"
    ) -> None:
        super().__init__(attention, hidden, output)

    def step(self, x: Any, h: Any, s: Any) -> Any:
        return self.average(x, h, s, s.l)


class CarriedRDA(RDA):
    """The RDA with the state that users carry: the average, and log(1 + d), which is 0 at first.

    Cells return that state at every step.
    """

    state = "average", "weight"
    inner: ClassVar[type[RDA]] = RDA

    def step(self, x: Any, h: Any, s: Any) -> Any:
        own = RDA.state_type(s.average, f.log_from_weight(s.weight))
        r, l = self.inner.step(self, x, h, own)
        return r, f.softplus(l)

    def hidden(self, s: Any) -> Any:
        return self.f_h(s.average)


class CarriedRWA(CarriedRDA):
    """The same of the RWA."""

    inputs = RWA.inputs
    recurrent = RWA.recurrent
    biases = RWA.biases
    inner = RWA


def _chosen(choice: Choice, x: Any) -> Any:
    return OUTPUT[choice](x) if isinstance(choice, str) else choice(x)
