"""Section 6.1: Xavier weights for each gate, biases 0, forget and discount biases 1."""

import math

import torch
from torch import Tensor


@torch.no_grad()
def xavier_gates_(weights: list[tuple[Tensor, Tensor | None]]) -> None:
    """Fill the blocks of each gate's W . [x, h] as one Xavier-uniform matrix.

    `weights` has one pair for each gate: its rows of the input weights and of the recurrent
    weights (None for a gate without the latter). The paper multiplies one matrix W_g by the
    concatenation [x_t, h_{t-1}], so the fan-in counts both parts.
    """
    for from_input, from_hidden in weights:
        fan_out, fan_in = from_input.shape
        if from_hidden is not None:
            fan_in += from_hidden.shape[1]
        bound = math.sqrt(6.0 / (fan_in + fan_out))
        from_input.uniform_(-bound, bound)
        if from_hidden is not None:
            from_hidden.uniform_(-bound, bound)


@torch.no_grad()
def bias_gates_(bias: Tensor, hidden_size: int, open_gate: int | None) -> None:
    """All biases 0, except 1 for the gate number `open_gate` (the forget or discount gate)."""
    bias.zero_()
    if open_gate is not None:
        bias[open_gate * hidden_size : (open_gate + 1) * hidden_size] = 1.0
