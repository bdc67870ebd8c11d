"""The functions that a unit's step may use, beside + - * / and comparisons.

Each works on expressions, when an engine traces a step, and on tensors, when the reference runs it.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from rda.activations import log_from_weight as _log_from_weight
from rda.activations import log_of_weight as _log_of_weight
from rda.activations import log_relu as _log_relu
from rda.activations import log_softplus as _log_softplus
from rda.activations import softplus as _softplus
from rda.symbolic.expressions import WHERE, Expression, Function, Scalar

INFINITY = float("inf")


where = WHERE
"""where(condition, a, b): a where the condition is true, otherwise b."""


# Derivatives of tanh and sigmoid come from their values, which are what is saved of a step.
tanh = Function("tanh", torch.tanh, lambda of: (1.0 - of * of,))
sigmoid = Function("sigmoid", torch.sigmoid, lambda of: (of * (1.0 - of),))
sigmoid_of_minus = Function(
    "sigmoid_of_minus", lambda x: torch.sigmoid(-x), lambda of: (-(of * (1.0 - of)),)
)
"""sigmoid(-x), with full relative accuracy where 1 - sigmoid(x) would have none."""
exp = Function("exp", torch.exp, lambda of: (of,))
log = Function("log", torch.log, lambda of: (1.0 / of.arguments[0],))
softplus = Function("softplus", _softplus, lambda of: (sigmoid(of.arguments[0]),))
"""log(1 + e^x)"""
log_sigmoid = Function("log_sigmoid", F.logsigmoid, lambda of: (sigmoid_of_minus(of.arguments[0]),))
"""log sigmoid(x), without overflow for any x."""
relu = Function(
    "relu",
    torch.relu,
    lambda of: (where(of.arguments[0] > 0.0, 1.0, 0.0),),
    has_dead_zones=True,
)


def _slope_of_log_softplus(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x < -20, 1 - x.exp() / 2, torch.sigmoid(x) / _softplus(x))


def _slope_of_log_relu(x: torch.Tensor) -> torch.Tensor:
    nothing = x < torch.finfo(x.dtype).tiny
    return torch.where(nothing, 1.0, x).reciprocal().masked_fill(nothing, 0.0)


slope_of_log_softplus = Function("slope_of_log_softplus", _slope_of_log_softplus)
slope_of_log_relu = Function("slope_of_log_relu", _slope_of_log_relu)
log_softplus = Function(
    "log_softplus", _log_softplus, lambda of: (slope_of_log_softplus(of.arguments[0]),)
)
"""log log(1 + e^x), which is x - e^x / 2 far below 0."""
log_relu = Function(
    "log_relu",
    _log_relu,
    lambda of: (slope_of_log_relu(of.arguments[0]),),
    has_dead_zones=True,
)
"""log max(0, x): minus infinity, with a derivative of zero, where x has no logarithm."""


log_of_weight = Function(
    "log_of_weight",
    _log_of_weight,
    lambda of: (slope_of_log_relu(of.arguments[0]),),
    has_dead_zones=True,
)
"""log a of a weight: the same, and NaN where the weight is negative, which it must not be."""


def _slope_of_log_from_weight(weight: torch.Tensor) -> torch.Tensor:
    return _slope_of_log_relu(-torch.expm1(-weight))


slope_of_log_from_weight = Function("slope_of_log_from_weight", _slope_of_log_from_weight)
log_from_weight = Function(
    "log_from_weight",
    _log_from_weight,
    lambda of: (slope_of_log_from_weight(of.arguments[0]),),
    has_dead_zones=True,
)
"""log d from log(1 + d), the weight that users carry: minus infinity where there is none."""


# ---- A weighted average in the logarithm of its weights


def _log_ratio(new: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    weightless = (new == -torch.inf) & (kept == -torch.inf)
    return torch.where(weightless, -torch.inf, new - kept)


log_ratio = Function("log_ratio", _log_ratio, lambda of: (1.0, -1.0), takes=2)
"""new - kept, the logarithms of two weights; minus infinity where neither has any weight."""


def _blend(old: torch.Tensor, new: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    # lerp returns exactly `new` at a share of 1, where old + (new - old) would be rounded.
    return torch.lerp(old, new, torch.sigmoid(p))


def _of_blend(of: Expression) -> tuple[Scalar, ...]:
    old, new, p = of.arguments
    share, rest = sigmoid(p), sigmoid_of_minus(p)
    return rest, share, (new - old) * share * rest


blend = Function("blend", _blend, _of_blend, takes=3)
"""old + sigmoid(p) (new - old): exactly old or new where the other has no share."""


def _log_sum(kept: torch.Tensor, new: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    # The larger term is outside the logarithm, and both branches have all derivatives.
    # torch.logaddexp has NaN second derivatives at -inf, and a form with |p| has a kink at 0.
    return torch.where(p > 0, new + _softplus(-p), kept + _softplus(p))


def _of_log_sum(of: Expression) -> tuple[Scalar | None, ...]:
    _, _, p = of.arguments
    return sigmoid_of_minus(p), sigmoid(p), None


log_sum = Function("log_sum", _log_sum, _of_log_sum, takes=3)
"""log(e^kept + e^new), given p = log_ratio(new, kept)."""
