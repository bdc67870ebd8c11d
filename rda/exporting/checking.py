"""Whether a file computes what its module does, on random inputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rda.exporting.subject import ExportError, Form, Subject
from rda.training.model import SequenceModel

if TYPE_CHECKING:
    from torch import nn

TOLERANCE = 1e-5
"""Relative to the largest number of a result: about a hundred roundings in float32."""
ROUNDING = 4
"""A file may also differ by so many times what the module's own roundings make, which is more than
the tolerance where weights are large."""
SHAPES = ((5, 3), (1, 1))
"""Steps and rows of the inputs on which they are compared."""

Inputs = dict[str, Any]
"""input and, where the form takes them, state (a tuple) and lengths."""
Runner = Callable[[Inputs], Sequence[Tensor]]
"""From inputs to the output and each part of the final state."""


@torch.no_grad()
def check(run: Runner, module: nn.Module, subject: Subject, form: Form) -> float:
    """The largest difference between what the file and the module compute, relative.

    Raises:
        ExportError: it is larger than the tolerance, and than what rounding alone can do.
    """
    expected_of = runner_of_module(module, form)
    exact_of = runner_of_module(module, form, torch.float64)
    generator = torch.Generator().manual_seed(0)
    largest = 0.0
    for time, batch in SHAPES:
        inputs = random_inputs(subject, form, time, batch, generator)
        results = zip(run(inputs), expected_of(inputs), exact_of(inputs), strict=True)
        for found, expected, exact in results:
            differs, rounding = (
                difference(each, expected) for each in (found, exact.to(expected.dtype))
            )
            allowed = max(TOLERANCE, ROUNDING * rounding if math.isfinite(rounding) else 0.0)
            if not differs <= allowed:
                raise ExportError(
                    f"the file differs from the module by {differs:.2g} (relative; at most "
                    f"{allowed:.2g} is allowed), so nothing was written"
                )
            largest = max(largest, differs)
    return largest


def difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest finite number."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return math.inf
    finite = expected.isfinite()
    others = found[~finite], expected[~finite]
    if not torch.allclose(*others, rtol=0, atol=0, equal_nan=True):
        return math.inf
    if not bool(finite.any()):
        return 0.0
    scale = max(float(expected[finite].abs().max()), torch.finfo(expected.dtype).tiny)
    return float((found[finite] - expected[finite]).abs().max()) / scale


def random_inputs(
    subject: Subject, form: Form, time: int, batch: int, generator: torch.Generator
) -> Inputs:
    """Inputs of this size, as a file of this form takes them."""
    stack = subject.stack

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=stack.dtype, generator=generator)

    shape = (batch,) if form.one_step else (batch, time) if stack.batch_first else (time, batch)
    found: Inputs = {}
    if subject.symbols is None:
        found["input"] = normal(*shape, stack.input_size)
    else:
        found["input"] = torch.randint(subject.symbols, shape, generator=generator)
    if form.takes_state:
        sizes = len(stack.groups), batch, stack.hidden_size
        found["state"] = tuple(normal(*sizes).abs() for _ in stack.names)
    if form.with_lengths:
        found["lengths"] = torch.randint(1, time + 1, (batch,), generator=generator)
    return found


def runner_of_module(module: nn.Module, form: Form, dtype: torch.dtype | None = None) -> Runner:
    """The module itself, in evaluation on a CPU by the reference engine, in its dtype or this."""
    module = copy.deepcopy(module).to("cpu", dtype).eval()
    layer: Any = module.unit if isinstance(module, SequenceModel) else module
    layer.engine = "reference"
    time = 1 if layer.batch_first else 0
    ends_once = isinstance(module, SequenceModel) and not module.reads_every_step

    def run(inputs: Inputs) -> Sequence[Tensor]:
        input = inputs["input"].unsqueeze(time) if form.one_step else inputs["input"]
        state = inputs.get("state")
        if dtype is not None:
            input = input.to(dtype) if input.is_floating_point() else input
            state = None if state is None else tuple(part.to(dtype) for part in state)
        if state is not None and len(state) == 1:
            (state,) = state
        output, final = module(input, state, lengths=inputs.get("lengths"))
        if form.one_step and not ends_once:
            output = output.squeeze(time)
        return [output, *((final,) if isinstance(final, Tensor) else final)]

    return run
