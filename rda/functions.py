"""The functions that a unit's step may use, beside + - * / and comparisons."""

from rda.symbolic.functions import (
    exp,
    log,
    log_sigmoid,
    log_softplus,
    relu,
    sigmoid,
    softplus,
    tanh,
    where,
)

__all__ = [
    "exp",
    "log",
    "log_sigmoid",
    "log_softplus",
    "relu",
    "sigmoid",
    "softplus",
    "tanh",
    "where",
]
