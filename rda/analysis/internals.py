"""Every step of an RDA or RWA layer: features, attention, discount, average."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.equations import features, gates, no_history, output, stable_hidden, stable_step
from rda.layers import AveragingLayer


class Internals(NamedTuple):
    """What a layer computed at every step, each (time, batch, hidden)."""

    features: Tensor
    """z_t, what is averaged."""
    log_attention: Tensor
    """log a_t, the weight that a step is given."""
    log_discount: Tensor
    """log gamma_t, by which the weight of everything before is multiplied; 0 in an RWA."""
    average: Tensor
    """r_t = n_t / d_t."""
    log_weight: Tensor
    """log d_t, the weight of the average."""
    output: Tensor
    """o_t."""

    @property
    def new_share(self) -> Tensor:
        """The share of the newest step in the average: 1 where all of the past is replaced."""
        return (self.log_attention - self.log_weight).exp()

    def shares(self, step: int) -> Tensor:
        """The share of each step up to `step` in the average after it, (step + 1, batch, hidden).

        They add up to 1, unless the layer was given a state to start from.
        """
        discounts = self.log_discount[: step + 1]
        later = discounts.sum(0) - discounts.cumsum(0)  # of the steps after each one
        return (self.log_attention[: step + 1] + later - self.log_weight[step]).exp()


@torch.no_grad()
def look_inside(layer: AveragingLayer, input: Tensor) -> Internals:
    """Run a layer of one direction over (time, batch, features), and return all that it computed.

    Only the first layer of a stack is looked at. Computed in float64, by the equations of the
    paper and no engine.
    """
    if layer.bidirectional:
        raise ValueError("layer should have one direction: two have no common order of steps")
    sequence = (input.transpose(0, 1) if layer.batch_first else input).double()
    weight_ih, weight_hh, *bias = (weight.double() for weight in layer.all_weights[0])
    projected = F.linear(sequence, weight_ih, bias[0] if bias else None)
    choices = layer.choices
    start = torch.zeros(layer.hidden_size, dtype=torch.float64, device=input.device)
    if layer.initial_average is not None:
        start = layer.initial_average[0].double()
    state = no_history(start.expand(sequence.shape[1], -1))
    h = stable_hidden(state, choices)
    steps = []
    for at_step in projected:
        gate = gates(at_step, F.linear(h, weight_hh), choices)
        state = stable_step(state, gate, choices)
        h = stable_hidden(state, choices)
        kept = torch.zeros_like(h) if gate.gamma is None else F.logsigmoid(gate.gamma)
        attention = choices.log_f_a(gate.a)
        z = features(gate.u, gate.g)
        steps.append((z, attention, kept, state.r, state.l, output(h, choices)))
    return Internals(*(torch.stack(column) for column in zip(*steps, strict=True)))


def lemma_bound(inside: Internals) -> tuple[Tensor, Tensor]:
    """The inequality of Lemma 1 at every step but the first: a_{t+1} / d_t, and its lower bound.

    For an RWA, moving its average needs at least the distance of the move, divided by the largest
    features plus the largest average. Each is (time - 1, batch, hidden).
    """
    ratio = (inside.log_attention[1:] - inside.log_weight[:-1]).exp()
    largest = inside.features.abs().amax(0) + inside.average.abs().amax(0)
    return ratio, inside.average.diff(dim=0).abs() / largest
