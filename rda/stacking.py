"""Layers on layers, directions side by side: the order in which a stack's groups run."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

Final = TypeVar("Final")


def run_stack(
    sequence: Tensor,
    layers: int,
    directions: int,
    dropout: float,
    run_group: Callable[[int, Tensor], tuple[Tensor, Final]],
) -> tuple[Tensor, list[Final]]:
    """The last layer's output, and every group's final state.

    `run_group` takes the number of a direction of a layer and the sequence that it reads.
    """
    finals = []
    for layer in range(layers):
        if layer > 0 and dropout > 0:
            sequence = F.dropout(sequence, dropout)
        outputs = []
        for k in range(layer * directions, (layer + 1) * directions):
            output, final = run_group(k, sequence)
            outputs.append(output)
            finals.append(final)
        sequence = outputs[0] if directions == 1 else torch.cat(outputs, dim=-1)
    return sequence, finals
