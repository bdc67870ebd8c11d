"""Sections 3 and 5 of the paper as pure functions of tensors.

Symbols are the paper's: u, g, z (features), a (attention), gamma (discount), n and d
(numerator and denominator of the average), h (hidden state), o (output).
The plain form keeps n and d, exactly as printed. The stable form keeps

    r = n / d        the average itself
    l = log d        the logarithm of the weight that stands behind it

and is the same function: the ratio n / d does not change when both are rescaled.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.activations import Choices, softplus


class PlainState(NamedTuple):
    """The state as printed: numerator and denominator of the average."""

    n: Tensor
    d: Tensor


class LogState(NamedTuple):
    """The stable state: the average r = n / d, and l = log d (-inf where there is no history)."""

    r: Tensor
    l: Tensor


class Gates(NamedTuple):
    """What one step is made of, before f_a and sigma: each is (batch, hidden)."""

    u: Tensor
    g: Tensor
    a: Tensor
    gamma: Tensor | None


def gates(projected: Tensor, recurrent: Tensor, choices: Choices) -> Gates:
    """RDA.features, RDA.attention, RDA.discount up to their non-linearities.

    `projected` holds W x + b for the blocks u, g, a, gamma, and `recurrent` holds W h for
    g, a, gamma; together they are the paper's W . [x_t, h_{t-1}] + b.
    """
    hidden_size = projected.shape[-1] // choices.input_blocks
    u, from_input = projected.split((hidden_size, projected.shape[-1] - hidden_size), dim=-1)
    g, a, *gamma = (from_input + recurrent).chunk(choices.recurrent_blocks, dim=-1)
    return Gates(u, g, a, gamma[0] if gamma else None)


def features(u: Tensor, g: Tensor) -> Tensor:
    """RWA.features, RDA.features:  z_t = u_t * tanh g_t"""
    return u * torch.tanh(g)


def discount(gamma: Tensor) -> Tensor:
    """RDA.discount:  gamma_t = sigma(W_gamma . [x_t, h_{t-1}] + b_gamma)"""
    return torch.sigmoid(gamma)


def weighted_average(state: PlainState, z: Tensor, a: Tensor) -> PlainState:
    """RWA.average, plain:  n_t = n_{t-1} + z_t a_t,  d_t = d_{t-1} + a_t"""
    n, d = state
    return PlainState(n + z * a, d + a)


def discounted_average(state: PlainState, z: Tensor, a: Tensor, gamma: Tensor) -> PlainState:
    """RDA.average, plain:  n_t = n_{t-1} gamma_t + z_t a_t,  d_t = d_{t-1} gamma_t + a_t"""
    n, d = state
    return PlainState(n * gamma + z * a, d * gamma + a)


def stable_average(
    state: LogState, z: Tensor, log_a: Tensor, log_gamma: Tensor | float
) -> LogState:
    """RWA.average and RDA.average, stable: the past and the new features, blended.

        p   = log a_t - (l_{t-1} + log gamma_t)
        s   = sigma(p)
        r_t = r_{t-1} + s (z_t - r_{t-1})
        l_t = log(e^{l_{t-1} + log gamma_t} + a_t)

    Deviation: where neither the past nor the new features have any weight the paper
    divides 0 by 0; here the average is held.
    """
    r, l = state
    kept = l + log_gamma
    weightless = (log_a == -torch.inf) & (kept == -torch.inf)
    p = torch.where(weightless, -torch.inf, log_a - kept)
    # lerp gives z itself at s = 1; r + (z - r) would round.
    blended = torch.lerp(r, z, torch.sigmoid(p))
    # The larger term stands outside the logarithm, and both branches have every derivative:
    # torch.logaddexp has NaN second derivatives at l = -inf, and |p| has a kink at 0.
    total = torch.where(p > 0, log_a + softplus(-p), kept + softplus(p))
    return LogState(blended, total)


def plain_step(state: PlainState, gate: Gates, choices: Choices) -> PlainState:
    """One step of the unit as printed; overflows where the attention does."""
    z, a = features(gate.u, gate.g), choices.f_a(gate.a)
    if gate.gamma is None:
        return weighted_average(state, z, a)
    return discounted_average(state, z, a, discount(gate.gamma))


def stable_step(state: LogState, gate: Gates, choices: Choices) -> LogState:
    """One step of the unit at any logit: the same function as `plain_step`."""
    log_gamma = 0.0 if gate.gamma is None else F.logsigmoid(gate.gamma)
    return stable_average(state, features(gate.u, gate.g), choices.log_f_a(gate.a), log_gamma)


def plain_hidden(state: PlainState, choices: Choices) -> Tensor:
    """RWA.average, RDA.average:  h_t = f_h(n_t / d_t)"""
    return choices.f_h(state.n / state.d)


def stable_hidden(state: LogState, choices: Choices) -> Tensor:
    """h_t = f_h(r_t)"""
    return choices.f_h(state.r)


def output(h: Tensor, choices: Choices) -> Tensor:
    """RDA.output:  o_t = f_o(h_t)"""
    return choices.f_o(h)


def no_history(average: Tensor) -> LogState:
    """A starting average with nothing behind it: it is seen by the gates and then replaced."""
    return LogState(average, torch.full_like(average, -torch.inf))


def weight_from_log(l: Tensor) -> Tensor:
    """log(1 + d) from l = log d: zero exactly where there is no history."""
    return softplus(l)


def log_from_weight(weight: Tensor) -> Tensor:
    """l = log d from log(1 + d).

    A weight of zero or less is no history at all: -inf, and no gradient, as for an
    absent state.
    """
    absent = weight < torch.finfo(weight.dtype).tiny
    present = weight.masked_fill(absent, 1.0)
    return (present + torch.log(-torch.expm1(-present))).masked_fill(absent, -torch.inf)
