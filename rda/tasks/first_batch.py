"""The first batch of a person's own task, looked at before training: a mistake is one line."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from rda.tasks.registry import TaskError
from rda.tasks.task import Batch, Task

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def check_first_batch(task: Task, batch_size: int, device: torch.device) -> None:
    """Raise a TaskError where `batch` does not draw what training takes."""
    import torch

    what = f"{type(task).__qualname__}.batch"
    try:
        with torch.random.fork_rng(devices=[]):  # for a task that draws from torch's own generator
            batch = task.batch(torch.Generator(device).manual_seed(0), batch_size)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise TaskError(
            f"{what} raised {reason} ({place.filename}, line {place.lineno})"
        ) from error
    if not isinstance(batch, Batch):
        raise TaskError(f"{what} should return Batch(input, target), got {type(batch).__name__}")
    mistake = _mistake(task, batch, batch_size)
    if mistake is not None:
        raise TaskError(f"{what}: {mistake}")


def _mistake(task: Task, batch: Batch, rows: int) -> str | None:
    """What is wrong with a batch, or None."""
    import torch

    input, target, lengths = batch
    for name, tensor in (("input", input), ("target", target)):
        if not isinstance(tensor, torch.Tensor):
            return f"{name} should be a tensor, got {type(tensor).__name__}"
    size = task.input_size
    shape = f"(time, {rows})" if task.symbolic else f"(time, {rows}, {size})"
    expected = (rows,) if task.symbolic else (rows, size)
    if tuple(input.shape[1:]) != expected or input.dim() != len(expected) + 1:
        return f"input should be {shape} for a batch of {rows}, got {tuple(input.shape)}"
    if not len(input):
        return "input should have at least one step, got none"
    if task.symbolic:
        wrong = _not_below(input, size)
        if wrong is not None:
            return f"input should be int64 from 0 to {size - 1} (input_size {size}), got {wrong}"
    elif input.dtype != torch.float32:
        return f"input should be float32, got {_kind(input)}: .float() makes it that"
    wanted = (len(input), rows) if task.reads_every_step else (rows,)
    if tuple(target.shape[: len(wanted)]) != wanted:
        when = "for every step" if task.reads_every_step else "for each sequence"
        return f"target should be {wanted}, an answer {when}, got {tuple(target.shape)}"
    if type(task).losses is Task.losses:
        wrong = _not_below(target, task.output_size)
        if wrong is not None:
            classes = f"from 0 to {task.output_size - 1} (output_size {task.output_size})"
            return f"target should be int64 {classes}, got {wrong}; for others define losses"
    if lengths is not None and (_not_below(lengths - 1, len(input)) or lengths.shape != (rows,)):
        return f"lengths should be ({rows},), int64 from 1 to {len(input)}"
    return None


def _not_below(values: Tensor, limit: int) -> str | None:
    """What stands where int64 from 0 to below the limit should be; None where it does."""
    import torch

    if values.dtype != torch.int64:
        return _kind(values)
    low, high = int(values.min()), int(values.max())
    return None if low >= 0 and high < limit else f"{low} to {high}"


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
