"""The engines: what each is, when it can serve, and how it is called."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from rda.activations import Choices
from rda.equations import LogState
from rda.scan import eager, fused, reference
from rda.scan.cpu import kernel
from rda.scan.cuda import onchip
from rda.scan.cuda.kernel import ClusterKernel
from rda.scan.kernels import KERNELS, Kernel

Scan = Callable[..., tuple[Tensor, LogState]]


class Obstacle(NamedTuple):
    """Why an engine cannot serve, and whether a person would want to know without asking."""

    reason: str
    worth_telling: bool


@dataclass(frozen=True)
class Engine:
    """`obstacle` is None where the engine can serve; `scan` runs it on checked arguments."""

    description: str
    obstacle: Callable[[tuple[Tensor, ...], Choices], Obstacle | None]
    scan: Scan


def _fused_obstacle(tensors: tuple[Tensor, ...], choices: Choices) -> Obstacle | None:
    for name in ("attention", "hidden", "output"):
        if not isinstance(getattr(choices, name), str):
            return Obstacle(
                f"{name} is a callable, and the engine knows the paper's functions by name", True
            )
    if _is_transformed(tensors):
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


def _is_transformed(tensors: tuple[Tensor, ...]) -> bool:
    """Whether this is inside torch.func (vmap, jvp, ...) or a tensor has a forward gradient."""
    if forward_ad._current_level >= 0:
        traced = torch.compiler.is_compiling()
        return traced or any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)
    return torch._C._functorch.maybe_current_level() is not None


def _cpu_kernel() -> Kernel:
    return kernel if kernel.obstacle() is None else eager


def _cuda_obstacle(tensors: tuple[Tensor, ...], choices: Choices) -> Obstacle | None:
    units = tensors[1].shape[1] if len(tensors) > 1 else 0
    reason = onchip.obstacle(tensors[0], units)
    if reason is not None:
        return Obstacle(reason, tensors[0].device.type == "cuda")
    return _fused_obstacle(tensors, choices)


def _cuda_scan(input: Tensor, *arguments: Any) -> tuple[Tensor, LogState]:
    units = arguments[2].shape[1]
    engine = f"cuda {onchip.product_for(input, units)}"
    found: tuple[Tensor, LogState] = partial(fused.scan, engine=engine)(input, *arguments)
    return found


KERNELS.update(cpu=_cpu_kernel, torch=lambda: eager)
KERNELS.update({f"cuda {product}": partial(ClusterKernel, product) for product in onchip.PRODUCTS})

ENGINES: dict[str, Engine] = {
    "cuda": Engine(
        "one kernel for the whole sequence, the weights on chip in a cluster of thread blocks",
        _cuda_obstacle,
        _cuda_scan,
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
