"""Sections 3 and 5 of the paper as pure functions of tensors.

Symbols are the paper's: u, g, z (features), a (attention), gamma (discount), n and d
(numerator and denominator of the average), h (hidden state), o (output).
The plain form keeps n and d, exactly as printed. The stable form keeps

    r = n / d        the average itself
    l = log d        the logarithm of its weight

and computes the same function: the ratio n / d does not change when both are rescaled.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.activations import Choices, softplus
from rda.units.rda import averaged


class PlainState(NamedTuple):
    """The state as the paper prints it: numerator and denominator of the average."""

    n: Tensor
    d: Tensor


class LogState(NamedTuple):
    """The stable state: the average r = n / d, and l = log d, which is -inf without a history."""

    r: Tensor
    l: Tensor


class Gates(NamedTuple):
    """The inputs of one step before f_a, tanh and sigma, each (batch, hidden)."""

    u: Tensor
    g: Tensor
    a: Tensor
    gamma: Tensor | None


def gates(projected: Tensor, recurrent: Tensor, choices: Choices) -> Gates:
    """RDA.features, RDA.attention and RDA.discount before their non-linearities.

    `projected` holds W x + b for the blocks u, g, a, gamma. `recurrent` holds W h for g, a, gamma.
    Their sum is the paper's W . [x_t, h_{t-1}] + b.
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
    """RWA.average and RDA.average, stable: a blend of the past average and the new features.

        p   = log a_t - (l_{t-1} + log gamma_t)
        s   = sigma(p)
        r_t = r_{t-1} + s (z_t - r_{t-1})
        l_t = log(e^{l_{t-1} + log gamma_t} + a_t)

    Deviation: if neither the past nor the new features have any weight, the paper divides 0 by 0.
    Here the average stays as it is.
    """
    return LogState(*averaged(state.r, z, log_a, state.l + log_gamma))


def plain_step(state: PlainState, gate: Gates, choices: Choices) -> PlainState:
    """One step of the unit as printed. It overflows if the attention does."""
    z, a = features(gate.u, gate.g), choices.f_a(gate.a)
    if gate.gamma is None:
        return weighted_average(state, z, a)
    return discounted_average(state, z, a, discount(gate.gamma))


def stable_step(state: LogState, gate: Gates, choices: Choices) -> LogState:
    """One step of the unit: the same function as `plain_step`, for logits of any size."""
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
    """A starting average without weight: the first gates see it, the first features replace it."""
    return LogState(average, torch.full_like(average, -torch.inf))


def weight_from_log(l: Tensor) -> Tensor:
    """log(1 + d) from l = log d: exactly zero if there is no history."""
    return softplus(l)
