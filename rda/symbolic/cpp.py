"""Expressions as statements of C++ on the vectors of vectors.cpp."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rda.symbolic.printing import Printer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rda.symbolic.expressions import Expression


def _logistic(printer: Printer, argument: Expression) -> str:
    """sigma(x), sigma(-x) and e^-|x| from one exponential."""
    return printer.shared("Logistic", "logistic({})", argument)


def _field(name: str) -> Callable[[Printer, Expression], str]:
    return lambda printer, of: f"{_logistic(printer, of.arguments[0])}.{name}"


def _softplus_text(printer: Printer, x: Expression) -> str:
    return f"larger({printer.names[x]}, all(0)) + log1p({_logistic(printer, x)}.tail)"


def _softplus(printer: Printer, of: Expression) -> str:
    return _softplus_text(printer, of.arguments[0])


def _log_sigmoid(printer: Printer, of: Expression) -> str:
    x = of.arguments[0]
    return f"smaller({printer.names[x]}, all(0)) - log1p({_logistic(printer, x)}.tail)"


def _log_softplus(printer: Printer, of: Expression) -> str:
    x, up = printer.names[of.arguments[0]], f"{_logistic(printer, of.arguments[0])}.up"
    return f"{x} < T(-20) ? {x} - T(0.5) * {up} : log_of_normal({_softplus(printer, of)})"


def _slope_of_log_softplus(printer: Printer, of: Expression) -> str:
    x, up = printer.names[of.arguments[0]], f"{_logistic(printer, of.arguments[0])}.up"
    return f"{x} < T(-20) ? T(1) - T(0.5) * {up} : {up} / ({_softplus(printer, of)})"


def _one_minus_exp_of_minus(printer: Printer, x: Expression) -> str:
    """1 - e^-x for x > 0 and 0 below: 2 t / (1 + t) with t = tanh(x / 2) has no cancellation."""
    t = f"tanh(T(0.5) * larger({printer.names[x]}, all(0)))"
    return f"(T(2) * {t} / (T(1) + {t}))"


def _log_from_weight(printer: Printer, of: Expression) -> str:
    (weight,) = of.arguments
    return f"{printer.names[weight]} + log_relu{_one_minus_exp_of_minus(printer, weight)}"


def _slope_of_log_from_weight(printer: Printer, of: Expression) -> str:
    return f"slope_of_log_relu{_one_minus_exp_of_minus(printer, of.arguments[0])}"


def _blend(printer: Printer, of: Expression) -> str:
    old, new, p = of.arguments
    return f"blend({printer.names[old]}, {printer.names[new]}, {_logistic(printer, p)})"


def _log_sum(printer: Printer, of: Expression) -> str:
    kept, new, p = of.arguments
    larger = f"larger({printer.names[new]}, {printer.names[kept]})"
    return f"{larger} + log1p({_logistic(printer, p)}.tail)"


TEMPLATES: Mapping[str, str | Callable[[Printer, Expression], str]] = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "divide": "{0} / {1}",
    "negate": "-{0}",
    "less": "{0} < {1}",
    "where": "select({0}, {1}, {2})",
    "through": "through({0}, {1})",
    "tanh": "tanh({0})",
    "exp": "exp({0})",
    "log": "log({0})",
    "relu": "select({0} < T(0), all(0), {0})",
    "sigmoid": _field("up"),
    "sigmoid_of_minus": _field("down"),
    "softplus": _softplus,
    "log_sigmoid": _log_sigmoid,
    "log_softplus": _log_softplus,
    "slope_of_log_softplus": _slope_of_log_softplus,
    "log_relu": "log_relu({0})",
    "log_of_weight": "log_of_weight({0})",
    "slope_of_log_relu": "slope_of_log_relu({0})",
    "log_from_weight": _log_from_weight,
    "slope_of_log_from_weight": _slope_of_log_from_weight,
    "log_ratio": "log_ratio({0}, {1})",
    "blend": _blend,
    "log_sum": _log_sum,
}


def scalar(value: float) -> str:
    """A number."""
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return f"T({value!r})"


def number(value: float) -> str:
    """A number as a vector."""
    return f"all({scalar(value)})"


def printer(names: Mapping[Expression, str]) -> Printer:
    """For statements on vectors of the type T."""
    return Printer("V", number, TEMPLATES, names)
