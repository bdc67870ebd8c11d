"""The engines: what each one is, when it can run, and how it is called."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.precision import state_dtype
from rda.scan import eager, fused, reference
from rda.scan.cpu import kernel
from rda.scan.cuda.choosing import WAYS
from rda.scan.cuda.kernel import GpuKernel
from rda.scan.cuda.launching import PRODUCTS, Layer, product_for
from rda.scan.kernels import KERNELS
from rda.scan.tracing import constant_when_traced, is_transformed

EngineName = Literal["auto", "block", "cuda", "grid", "graph", "cpu", "eager", "reference"]
Scan = Callable[..., tuple[Tensor, LogState]]


class Obstacle(NamedTuple):
    """Why an engine cannot run, and whether "auto" should warn about it."""

    reason: str
    worth_telling: bool


class Work(NamedTuple):
    """The call that an engine is asked to run."""

    layer: Layer
    tensors: tuple[Tensor, ...]
    choices: Choices


def work_on(input: Tensor, choices: Choices, *others: Tensor) -> Work:
    """The first of `others` is the recurrent weight. Without it the size of the layer is 0."""
    units = gates = batch = 0
    if others:
        rows, units = others[0].shape
        gates, batch = rows // max(units, 1), input.shape[1]
    return Work(Layer.on(input, units, gates, batch), (input, *others), choices)


@dataclass(frozen=True)
class Engine:
    """One way to run a scan.

    `obstacle` returns why the engine cannot run this call, or None. `scan` runs it on checked
    arguments. `slower` returns why "auto" should prefer a later engine, or None.
    """

    description: str
    obstacle: Callable[[Work], Obstacle | None]
    scan: Scan
    slower: Callable[[Layer], str | None] = lambda layer: None


def _fused_obstacle(work: Work) -> Obstacle | None:
    for name in ("attention", "hidden", "output"):
        if not isinstance(getattr(work.choices, name), str):
            return Obstacle(
                f"{name} is a callable, and the engine knows the paper's functions by name", True
            )
    if is_transformed(work.tensors):
        return Obstacle("torch.func and forward-mode derivatives need the reference", False)
    return None


def _cpu_obstacle(work: Work) -> Obstacle | None:
    device = work.layer.device.type
    if device != "cpu":
        return Obstacle(f"it runs on a CPU, and the tensors are on {device}", False)
    common = _fused_obstacle(work)
    if common is not None:
        return common
    choices = work.choices
    names = (str(choices.attention), str(choices.hidden), str(choices.output), choices.discount)
    missing = _missing_kernel(*names, state_dtype(work.layer.dtype))
    return None if missing is None else Obstacle(missing, True)


@constant_when_traced
def _missing_kernel(
    attention: str, hidden: str, output: str, discount: bool, dtype: torch.dtype
) -> str | None:
    return kernel.obstacle(Choices.named(attention, hidden, output, discount), dtype)


def _gpu_obstacle(name: str, work: Work) -> Obstacle | None:
    reason = WAYS[name].obstacle(work.layer)
    if reason is not None:
        # "graph" is the last engine for GPUs: without it a slow one runs, so "auto" warns.
        return Obstacle(reason, name == "graph" and work.layer.device.type == "cuda")
    return _fused_obstacle(work)


def _gpu_engine(name: str, description: str) -> Engine:
    for product in PRODUCTS:
        KERNELS[f"{name} {product}"] = partial(GpuKernel, WAYS[name].run, product)
    return Engine(
        description,
        partial(_gpu_obstacle, name),
        partial(_gpu_scan, name),
        WAYS[name].slower,
    )


def _gpu_scan(name: str, input: Tensor, *arguments: Any) -> tuple[Tensor, LogState]:
    units = arguments[2].shape[1]
    run: Scan = fused.scan
    return run(input, *arguments, engine=f"{name} {product_for(input.dtype, units)}")


KERNELS.update(cpu=lambda: kernel, eager=lambda: eager)

ENGINES: dict[str, Engine] = {
    "block": _gpu_engine(
        "block", "one kernel for the whole sequence, a block for every few rows, in float32"
    ),
    "cuda": _gpu_engine(
        "cuda", "one kernel for the whole sequence, the weights on chip in a cluster of blocks"
    ),
    "grid": _gpu_engine(
        "grid", "one kernel for the whole sequence, the weights on chip all over the GPU, in bf16"
    ),
    "graph": _gpu_engine("graph", "a product and a kernel for every step, replayed as CUDA graphs"),
    "cpu": Engine(
        "compiled C++, vectorised, the batch split over threads",
        _cpu_obstacle,
        partial(fused.scan, engine="cpu"),
    ),
    "eager": Engine(
        "plain PyTorch with its backward written out, on any device",
        _fused_obstacle,
        partial(fused.scan, engine="eager"),
    ),
    "reference": Engine(
        "a Python loop over the equations, on any device, with any callable",
        lambda work: None,
        reference.scan,
    ),
}
"""Every engine by name, in the order in which "auto" tries them."""

FEW_LAUNCHES = tuple(WAYS)
"""Engines that run a sequence in a few launches: a CUDA graph of a training step stays short."""
