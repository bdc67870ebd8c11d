"""Expressions as operators of ONNX.

Most functions are an operator there. The others are written with those that are: first by
expressions (`in_operators`), so that what two of them compute alike is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from rda.symbolic.expressions import Expression, Function, in_order
from rda.symbolic.functions import INFINITY, exp, log, relu, where

if TYPE_CHECKING:
    from collections.abc import Mapping

OPERATORS: Mapping[str, str] = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "negate": "Neg",
    "absolute": "Abs",
    "less": "Less",
    "where": "Where",
    "tanh": "Tanh",
    "exp": "Exp",
    "log": "Log",
    "relu": "Relu",
}
"""The operator of ONNX for each function that has one."""

absolute = Function("absolute", torch.abs)


def in_operators(
    results: Iterable[Expression], known: Iterable[Expression], smallest: float
) -> list[Expression]:
    """The results by functions of `OPERATORS` alone, from what is known.

    `smallest` is the smallest number of the dtype that has full precision (`torch.finfo.tiny`).
    """
    results = list(results)
    written = {each: each for each in known}
    for each in in_order(results, written):
        if each.function is None:
            written[each] = each
        else:
            arguments = [written[argument] for argument in each.arguments]
            written[each] = _written(each.function, arguments, smallest)
    return [written[result] for result in results]


def _written(function: Function, arguments: list[Expression], smallest: float) -> Expression:
    if function.name in OPERATORS:
        found = function(*arguments)
    elif function.name in _WITH_SMALLEST:
        found = _WITH_SMALLEST[function.name](*arguments, smallest)
    else:
        found = _REWRITTEN[function.name](*arguments)
    assert isinstance(found, Expression)
    return found


def _tail(x: Expression) -> Any:
    """e^-|x|, which cannot overflow."""
    return exp(-absolute(x))


def _log1p(y: Expression) -> Any:
    """log(1 + y) for y >= 0. What 1 + y rounds away is made up for by the quotient (Kahan)."""
    u = 1.0 + y
    return where(u > 1.0, log(u) * (y / (u - 1.0)), y)


def _one_minus_exp_of_minus(x: Expression) -> Any:
    """1 - e^-x for x > 0, exact near 0 in the same way."""
    u = exp(-x)
    near_zero = where(u < 1.0, (1.0 - u) * (x / -log(u)), x)
    return where(x < 1.0, near_zero, 1.0 - u)


def _sigmoid(x: Expression) -> Any:
    # onnxruntime's own Sigmoid is 0 from -18 on down.
    return 1.0 / (1.0 + exp(-x))


def _softplus(x: Expression) -> Any:
    return relu(x) + _log1p(_tail(x))


def _log_sigmoid(x: Expression) -> Any:
    return -relu(-x) - _log1p(_tail(x))


def _log_softplus(x: Expression) -> Any:
    return where(x < -20.0, x - 0.5 * exp(x), log(_softplus(x)))


def _log_ratio(new: Expression, kept: Expression) -> Any:
    # Without a new weight it is minus infinity, as `new` is, whatever was kept.
    return where(new > -INFINITY, new - kept, new)


def _blend(old: Expression, new: Expression, p: Expression) -> Any:
    # From the side of the larger share: exactly old or new where the other has none.
    smaller = _tail(p) / (1.0 + _tail(p))
    change = smaller * (new - old)
    return where(p < 0.0, old + change, new - change)


def _log_sum(kept: Expression, new: Expression, p: Expression) -> Any:
    return where(p > 0.0, new, kept) + _log1p(_tail(p))


def _log_of_weight(a: Expression, smallest: float) -> Any:
    # The logarithm of a negative weight is NaN, as it should be.
    return where(a < smallest, where(a < 0.0, log(a), -INFINITY), log(a))


def _log_relu(x: Expression, smallest: float) -> Any:
    return where(x < smallest, -INFINITY, log(x))


def _log_from_weight(weight: Expression, smallest: float) -> Any:
    present = weight + log(_one_minus_exp_of_minus(weight))
    return where(weight < smallest, -INFINITY, present)


_REWRITTEN: Mapping[str, Callable[..., Any]] = {
    "sigmoid": _sigmoid,
    "sigmoid_of_minus": lambda x: _sigmoid(-x),
    "softplus": _softplus,
    "log_sigmoid": _log_sigmoid,
    "log_softplus": _log_softplus,
    "log_ratio": _log_ratio,
    "blend": _blend,
    "log_sum": _log_sum,
}
_WITH_SMALLEST: Mapping[str, Callable[..., Any]] = {
    "log_of_weight": _log_of_weight,
    "log_relu": _log_relu,
    "log_from_weight": _log_from_weight,
}
