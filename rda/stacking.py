"""The order in which the layers and directions of a stack run."""

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
    """The output of the last layer, and the final states of all groups.

    A group is one direction of one layer. `run_group` takes its number and its input sequence.
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
