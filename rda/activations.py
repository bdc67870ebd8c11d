"""The choices of section 5.1: f_a, f_h and f_o under the paper's names.

The stable form of the average needs log f_a instead of f_a. So each attention function is defined
twice: as printed in the paper, and as its logarithm, which no logit can overflow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rda.names import look_up

Activation = Callable[[Tensor], Tensor]
AttentionName = Literal["exp", "relu", "softplus", "sigmoid"]
OutputName = Literal["identity", "tanh"]


def identity(x: Tensor) -> Tensor:
    """x"""
    return x


def softplus(x: Tensor) -> Tensor:
    """ln(1 + e^x). torch returns x above 20 by default, an error of e^-20 that float64 shows."""
    return F.softplus(x, threshold=40.0)


def log_softplus(x: Tensor) -> Tensor:
    """ln ln(1 + e^x). Below -20, 1 + e^x is rounded, and the series x - e^x / 2 is exact."""
    in_tail = x < -20.0
    tail = torch.where(in_tail, x, -20.0)
    body = torch.where(in_tail, 0.0, x)
    return torch.where(in_tail, tail - tail.exp() / 2, softplus(body).log())


def log_of_weight(a: Tensor) -> Tensor:
    """ln a for a >= 0. An attention of zero gives -inf, with a gradient of zero."""
    nothing = (a >= 0) & (a < torch.finfo(a.dtype).tiny)
    return torch.where(nothing, -torch.inf, torch.where(nothing, 1.0, a).log())


def log_relu(x: Tensor) -> Tensor:
    """ln max(0, x)"""
    return log_of_weight(torch.relu(x))


def log_from_weight(weight: Tensor) -> Tensor:
    """l = log d from log(1 + d).

    A weight of zero or less means no history: -inf, with a gradient of zero, as without a state.
    """
    absent = weight <= torch.finfo(weight.dtype).tiny
    present = weight.masked_fill(absent, 1.0)
    return (present + torch.log(-torch.expm1(-present))).masked_fill(absent, -torch.inf)


ATTENTION: dict[str, Activation] = {
    "exp": torch.exp,
    "relu": torch.relu,
    "softplus": softplus,
    "sigmoid": torch.sigmoid,
}
LOG_ATTENTION: dict[str, Activation] = {
    "exp": identity,
    "relu": log_relu,
    "softplus": log_softplus,
    "sigmoid": F.logsigmoid,
}
HIDDEN: dict[str, Activation] = {"identity": identity, "tanh": torch.tanh}
OUTPUT: dict[str, Activation] = {"identity": identity, "tanh": torch.tanh}


@dataclass(frozen=True)
class Choices:
    """The functions f_a, f_h and f_o of a unit, and whether it discounts the past.

    Each function is one of the paper's names, or any callable from tensor to tensor. A callable
    for the attention must be non-negative and monotonically increasing.
    """

    attention: AttentionName | Activation = "exp"
    hidden: OutputName | Activation = "identity"
    output: OutputName | Activation = "tanh"
    discount: bool = True

    def __post_init__(self) -> None:
        _ = self.f_a, self.f_h, self.f_o

    @property
    def f_a(self) -> Activation:
        return _resolve("attention", self.attention, ATTENTION)

    @property
    def log_f_a(self) -> Activation:
        if isinstance(self.attention, str):
            return LOG_ATTENTION[self.attention]
        attention = self.f_a
        return lambda x: log_of_weight(attention(x))

    @property
    def f_h(self) -> Activation:
        return _resolve("hidden", self.hidden, HIDDEN)

    @property
    def f_o(self) -> Activation:
        return _resolve("output", self.output, OUTPUT)

    @property
    def input_blocks(self) -> int:
        """Number of blocks in the input weights: u, g, a and, with a discount, gamma."""
        return 4 if self.discount else 3

    @property
    def recurrent_blocks(self) -> int:
        """Number of blocks in the recurrent weights: all but u, which depends on the input only."""
        return self.input_blocks - 1


def _resolve(kind: str, choice: object, table: dict[str, Activation]) -> Activation:
    if isinstance(choice, str):
        return table[choice] if choice in table else look_up(kind, choice, table)
    if isinstance(choice, nn.Module):
        return _in_its_own_dtype(choice)
    if isinstance(choice, type):
        raise TypeError(f"{kind} should be a name or a callable, got the class {choice.__name__}")
    if callable(choice):
        return choice
    raise TypeError(f"{kind} should be a name or a callable, got: {type(choice).__name__}")


def _in_its_own_dtype(module: nn.Module) -> Activation:
    """The module, called in the dtype of its parameters: the state is float32 even in bfloat16."""

    def activation(x: Tensor) -> Tensor:
        parameter = next(module.parameters(), x)
        result: Tensor = module(x.to(parameter.dtype))
        return result.to(x.dtype)

    return activation
