"""Rows of unequal length in one padded sequence."""

import torch
from torch import Tensor


def running(lengths: Tensor, sequence: Tensor) -> Tensor:
    """(time, batch, 1): whether a row still goes on at a step of a (time, ...) sequence."""
    steps = torch.arange(sequence.shape[0], device=sequence.device)
    return (steps[:, None] < lengths.to(sequence.device))[..., None]
