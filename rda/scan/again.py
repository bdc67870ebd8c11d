"""Gradients from operations that torch can differentiate again, and batch."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def gradients_again(
    run: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Any],
    needed: Sequence[bool],
    gradients: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """The gradients of the needed inputs of `run`, from those of its results."""
    again = torch.is_grad_enabled()
    wanted = [k for k, is_needed in enumerate(needed) if is_needed]
    inputs = list(inputs)
    if not again:
        inputs = [None if x is None else x.detach() for x in inputs]
        for k in wanted:
            inputs[k].requires_grad_()
    with torch.enable_grad():
        results = run(*inputs)
    reached = [
        (result, gradient)
        for result, gradient in zip(results, gradients, strict=True)
        if gradient is not None and result.requires_grad
    ]
    found = torch.autograd.grad(
        [result for result, _ in reached],
        [inputs[k] for k in wanted],
        [gradient for _, gradient in reached],
        create_graph=again,
        allow_unused=True,
    )
    placed: list[Tensor | None] = [None] * len(inputs)
    for k, gradient in zip(wanted, found, strict=True):
        placed[k] = gradient
    return placed
