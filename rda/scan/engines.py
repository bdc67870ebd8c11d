"""The engines: what each is, when it can serve, and how it is called."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.scan import eager, fused, reference
from rda.scan.cpu import kernel
from rda.scan.cuda import onchip, steps
from rda.scan.cuda.choosing import slower_on_chip
from rda.scan.cuda.kernel import GpuKernel
from rda.scan.cuda.launching import PRODUCTS, product_for
from rda.scan.kernels import KERNELS, Kernel
from rda.scan.tracing import is_transformed

Scan = Callable[..., tuple[Tensor, LogState]]


class Obstacle(NamedTuple):
    """Why an engine cannot serve, and whether a person would want to know without asking."""

    reason: str
    worth_telling: bool


@dataclass(frozen=True)
class Engine:
    """`obstacle` is None where the engine can serve; `scan` runs it on checked arguments.

    `slower` is why `auto` takes the next engine though this one could serve, or None.
    """

    description: str
    obstacle: Callable[[tuple[Tensor, ...], Choices], Obstacle | None]
    scan: Scan
    slower: Callable[[tuple[Tensor, ...]], str | None] = lambda tensors: None


def _fused_obstacle(tensors: tuple[Tensor, ...], choices: Choices) -> Obstacle | None:
    for name in ("attention", "hidden", "output"):
        if not isinstance(getattr(choices, name), str):
            return Obstacle(
                f"{name} is a callable, and the engine knows the paper's functions by name", True
            )
    if is_transformed(tensors):
        return Obstacle("torch.func and forward-mode derivatives need the reference", False)
    return None


def _cpu_obstacle(tensors: tuple[Tensor, ...], choices: Choices) -> Obstacle | None:
    device = tensors[0].device.type
    if device != "cpu":
        return Obstacle(f"it runs on a CPU, and the tensors are on {device}", False)
    common = _fused_obstacle(tensors, choices)
    if common is not None:
        return common
    # While torch.compile traces nothing is built; the op itself finds out when it runs.
    missing = None if torch.compiler.is_compiling() else kernel.obstacle()
    return None if missing is None else Obstacle(missing, True)


def _cpu_kernel() -> Kernel:
    return kernel if kernel.obstacle() is None else eager


def _units(tensors: tuple[Tensor, ...]) -> int:
    """Of the recurrent weight, which comes second; 0 where it is not told."""
    return tensors[1].shape[1] if len(tensors) > 1 else 0


def _onchip_obstacle(tensors: tuple[Tensor, ...], choices: Choices) -> Obstacle | None:
    reason = onchip.obstacle(tensors[0], _units(tensors))
    return _fused_obstacle(tensors, choices) if reason is None else Obstacle(reason, False)


def _slower_on_chip(tensors: tuple[Tensor, ...]) -> str | None:
    if len(tensors) == 1:
        return None
    return slower_on_chip(tensors[0], _units(tensors), tensors[0].shape[1])


def _steps_obstacle(tensors: tuple[Tensor, ...], choices: Choices) -> Obstacle | None:
    reason = steps.obstacle(tensors[0], _units(tensors))
    if reason is not None:
        return Obstacle(reason, tensors[0].device.type == "cuda")
    return _fused_obstacle(tensors, choices)


def _gpu_scan(name: str, input: Tensor, *arguments: Any) -> tuple[Tensor, LogState]:
    units = arguments[2].shape[1]
    run: Scan = fused.scan
    return run(input, *arguments, engine=f"{name} {product_for(input, units)}")


KERNELS.update(cpu=_cpu_kernel, torch=lambda: eager)
for _product in PRODUCTS:
    KERNELS[f"cuda {_product}"] = partial(GpuKernel, onchip.run, _product)
    KERNELS[f"graph {_product}"] = partial(GpuKernel, steps.run, _product)

ENGINES: dict[str, Engine] = {
    "cuda": Engine(
        "one kernel for the whole sequence, the weights on chip in a cluster of thread blocks",
        _onchip_obstacle,
        partial(_gpu_scan, "cuda"),
        _slower_on_chip,
    ),
    "graph": Engine(
        "a product and a kernel for every step, replayed as CUDA graphs",
        _steps_obstacle,
        partial(_gpu_scan, "graph"),
    ),
    "cpu": Engine(
        "compiled C++, vectorised, the batch split over threads",
        _cpu_obstacle,
        partial(fused.scan, engine="cpu"),
    ),
    "torch": Engine(
        "plain PyTorch with its backward written out, on any device",
        _fused_obstacle,
        partial(fused.scan, engine="torch"),
    ),
    "reference": Engine(
        "a Python loop over the equations, on any device, with any callable",
        lambda tensors, choices: None,
        reference.scan,
    ),
}
"""Every engine by name, the one that `auto` prefers first."""
