"""One symbol after the other for one sequence, without what layers do for batches and engines.

A step of a layer is mostly Python: checks, lengths, the choice of an engine. Writing a text takes
thousands of steps that depend on each other, so here a step is the unit's equations alone.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.activations import log_from_weight
from rda.equations import (
    LogState,
    gates,
    no_history,
    output,
    stable_hidden,
    stable_step,
)
from rda.layers import AveragingLayer
from rda.training.model import SequenceModel

Step = Callable[[int], Tensor]
"""From the number of a symbol to the unit's output."""


def one_step(model: SequenceModel, state: Any = None) -> Step:
    """A function from a symbol's number to the logits of what follows; it remembers the state.

    Args:
        model: a model of symbols with one layer.
        state: the state of its unit to go on from; None for a new sequence.
    """
    assert model.symbols is not None
    everything = torch.arange(model.symbols, device=model.readout.weight.device)
    encoded = model.encode(everything.unsqueeze(1)).squeeze(1)
    unit, readout = model.unit, model.readout
    kind = _rda if isinstance(unit, AveragingLayer) else _lstm if unit.mode == "LSTM" else _gru
    follow = kind(unit, encoded, state)
    return lambda symbol: readout(follow(symbol))


def _rda(unit: AveragingLayer, encoded: Tensor, state: Any) -> Step:
    weight_ih, weight_hh, bias = unit.all_weights[0]
    projected = F.linear(encoded, weight_ih, bias).unbind(0)
    choices = unit.choices
    now = no_history(weight_hh.new_zeros(unit.hidden_size))
    if state is not None:
        now = LogState(state.average[0, 0], log_from_weight(state.weight[0, 0]))
    hidden = stable_hidden(now, choices)

    def step(symbol: int) -> Tensor:
        nonlocal now, hidden
        gate = gates(projected[symbol], torch.mv(weight_hh, hidden), choices)
        now = stable_step(now, gate, choices)
        hidden = stable_hidden(now, choices)
        return output(hidden, choices)

    return step


def _lstm(unit: Any, encoded: Tensor, state: Any) -> Step:
    """By torch's own cell."""
    weights = unit.all_weights[0]
    inputs = encoded.unsqueeze(1).unbind(0)
    h = c = weights[1].new_zeros(1, unit.hidden_size)
    if state is not None:
        h, c = (part[0] for part in state)

    def step(symbol: int) -> Tensor:
        nonlocal h, c
        h, c = torch.lstm_cell(inputs[symbol], (h, c), *weights)
        return h[0]

    return step


def _gru(unit: Any, encoded: Tensor, state: Any) -> Step:
    """By torch's own cell."""
    weights = unit.all_weights[0]
    inputs = encoded.unsqueeze(1).unbind(0)
    h = weights[1].new_zeros(1, unit.hidden_size) if state is None else state[0]

    def step(symbol: int) -> Tensor:
        nonlocal h
        h = torch.gru_cell(inputs[symbol], h, *weights)
        return h[0]

    return step
