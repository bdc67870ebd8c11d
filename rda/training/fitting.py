"""Whether a checkpoint is one of this run, before anything of it is used.

A checkpoint may come from somebody else. Adam's fused step does not look at the shapes of its
tensors: with wrong ones it reads and writes beside them.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import torch
from torch import Tensor

from rda.training.model import fits
from rda.training.status import is_count, is_number
from rda.training.stepper import ADAM, Stepper, state_tensors, without_prefix


def misfits(stepper: Stepper, tensors: dict[str, Tensor], values: Mapping[str, Any]) -> list[str]:
    """The parts of a checkpoint that do not fit this run, by name."""
    return [*_odd_values(values), *_odd_weights(stepper, tensors), *_odd_state(stepper, tensors)]


def _odd_values(values: Mapping[str, Any]) -> Iterator[str]:
    best, best_step = values.get("best"), values.get("best_step")
    if not is_number(values.get("seconds")):
        yield "seconds"
    if not is_count(values.get("evaluated_step")):
        yield "evaluated_step"
    if best_step is not None and not is_count(best_step):
        yield "best_step"
    if not isinstance(best, dict) or not all(map(is_number, best.values())):
        yield "best"


def _odd_weights(stepper: Stepper, tensors: dict[str, Tensor]) -> Iterator[str]:
    best = without_prefix("best.", tensors)
    if not fits(stepper.model, without_prefix("model.", tensors)):
        yield "the weights"
    if best and not fits(stepper.model, best):
        yield "the best weights"
    for name, parameter in stepper.parameters.items():
        found = {key: tensors.get(f"adam.{key}.{name}") for key in ADAM}
        if any(tensor is not None for tensor in found.values()):
            shapes = {key: torch.Size() if key == "step" else parameter.shape for key in ADAM}
            for key, tensor in found.items():
                if not _is_like(tensor, shapes[key], parameter.dtype):
                    yield f"adam.{key}.{name}"


def _odd_state(stepper: Stepper, tensors: dict[str, Tensor]) -> Iterator[str]:
    """The state that is carried into the next batch.

    Its precision is that of the engine that left it: with autocast parts of it are in bfloat16.
    """
    parts = without_prefix("state.", tensors)
    if not parts:
        return
    unit = copy(stepper.model.unit)
    unit.engine = "reference"  # the run's own may refuse so small a call, or one in float32
    with torch.no_grad():
        _, state = unit(stepper.model.recurrent_weights.new_zeros(1, 1, unit.input_size))
    expected = {str(i): part for i, part in enumerate(state_tensors(state))}
    if parts.keys() != expected.keys():
        yield "the state"
        return
    for i, part in expected.items():
        layers, _, units = part.shape
        shape = torch.Size((layers, stepper.recipe.batch_size, units))
        if parts[i].shape != shape or not parts[i].is_floating_point():
            yield f"state.{i}"


def _is_like(tensor: Tensor | None, shape: torch.Size, dtype: torch.dtype) -> bool:
    return tensor is not None and tensor.shape == shape and tensor.dtype == dtype
