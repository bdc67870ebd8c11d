"""Section 6.1: Xavier weights for each gate, biases 0, forget and discount biases 1."""

import math
from collections.abc import Sequence

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
def bias_gates_(bias: Tensor, values: Sequence[float]) -> None:
    """Fill the biases of each gate with its value; forget and discount gates have 1, others 0."""
    for block, value in zip(bias.chunk(len(values)), values, strict=True):
        block.fill_(value)
