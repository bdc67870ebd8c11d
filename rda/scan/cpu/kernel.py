"""The compiled RDA and RWA behind the interface of `rda.scan.kernels.Kernel`."""

import functools
from contextlib import nullcontext

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.scan.cpu.build import BuildError
from rda.scan.cpu.native import Native, compiled
from rda.scan.kernels import FinalGradient, Kept, Layout, Trace
from rda.scan.passes import Results, Weights
from rda.symbolic.derived import derived
from rda.units import RDA, RWA, Unit

products = nullcontext
takes_no_start = True


@functools.cache
def unit_of(choices: Choices) -> Unit:
    """The definition of a unit whose functions have names."""
    kind = RDA if choices.discount else RWA
    return kind(str(choices.attention), str(choices.hidden), str(choices.output))


def native(choices: Choices, dtype: torch.dtype) -> Native | str:
    """The compiled kernel, or the reason why there is none."""
    return compiled(unit_of(choices), dtype)


def obstacle(choices: Choices, dtype: torch.dtype) -> str | None:
    """Why there is no kernel for a unit, or None."""
    found = native(choices, dtype)
    return found if isinstance(found, str) else None


def layout(choices: Choices) -> Layout:
    """What the unit's definition says has to be kept; the values that it names are in `saved`."""
    kept = derived(unit_of(choices)).kept
    return Layout("r" in kept.sequences, len(kept.values), False)


def forward(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    start: LogState | None,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    keep: bool,
) -> Trace:
    weights = Weights(input_weight, bias, weight)
    kernel = _kernel(choices, input.dtype)
    found = kernel.forward(input, weights, start or (None, None), lengths, reverse, keep)
    averages, saved, slopes = (input.new_empty(0) for _ in range(3))
    if found.saved:
        averages, saved = next(iter(found.sequences), averages), found.saved[0]
    r, l = found.state
    return Trace(found.output, r, l, averages, saved, slopes)


def backward(
    d_output: Tensor,
    d_final: FinalGradient,
    weight: Tensor,
    r0: Tensor | None,
    kept: Kept,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    sequences = [kept.averages] if kept.averages.numel() else []
    results = Results(kept.output, [], sequences, [kept.saved])
    weights = Weights(None, None, weight)
    kernel = _kernel(choices, kept.output.dtype)
    d_projected, (d_r0, d_l0) = kernel.backward(
        d_output, d_final, weights, (r0, None), results, lengths, reverse
    )
    return d_projected, d_r0, d_l0


def _kernel(choices: Choices, dtype: torch.dtype) -> Native:
    found = native(choices, dtype)
    if isinstance(found, str):
        raise BuildError(found)
    return found
