"""Rows of different lengths in one padded sequence."""

import torch
from torch import Tensor


def running(lengths: Tensor, sequence: Tensor) -> Tensor:
    """(time, batch, 1) mask: True at the steps before the end of each row."""
    steps = torch.arange(sequence.shape[0], device=sequence.device)
    return (steps[:, None] < lengths.to(sequence.device))[..., None]
