"""The engines: what each one is, when it can run a call, and the kernel with which it does."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rda.precision import Precision, state_dtype
from rda.scan.cpu import native
from rda.scan.cpu.build import BuildError
from rda.scan.cuda import block, choosing, grid, launching, onchip, steps
from rda.scan.cuda.compiled import OnGpu, saved_blocks
from rda.scan.cuda.launching import Layer
from rda.scan.eager import Eager
from rda.scan.passes import Call, Kernel
from rda.scan.tracing import constant_when_traced, is_transformed
from rda.symbolic.derived import Derived
from rda.units import RDA, Unit
from rda.units.known import derived

EngineName = Literal["auto", "block", "cuda", "grid", "graph", "cpu", "eager", "reference"]
Reason = Callable[[Layer], str | None]


class Obstacle(NamedTuple):
    """Why an engine cannot run, and whether "auto" should warn about it."""

    reason: str
    worth_telling: bool


class Work(NamedTuple):
    """What engines are asked about."""

    layer: Layer
    unit: Unit
    key: str
    """The unit's key; empty where it cannot be traced."""
    tensors: tuple[Tensor, ...]

    @staticmethod
    def of(call: Call) -> "Work":
        """The work of a call."""
        rows, units = call.weights.recurrent.shape
        layer = Layer.on(call.input, units, rows // max(units, 1), call.input.shape[1])
        tensors = tuple(tensor for tensor in call.tensors if tensor is not None)
        return Work(layer, call.unit, call.key, tensors)


class Engine:
    """One way to run a unit over time."""

    def __init__(self, name: str, description: str) -> None:
        self.name, self.description = name, description

    def obstacle(self, work: Work) -> Obstacle | None:
        """Why it cannot run this, or None."""
        if not work.key:
            return Obstacle(_untraceable(work.unit), True)
        if is_transformed(work.tensors):
            return Obstacle("torch.func and forward-mode derivatives need the reference", False)
        return None

    def slower(self, layer: Layer) -> str | None:
        """Why "auto" should prefer a later engine, or None."""
        return None

    def precision(self, dtype: torch.dtype, units: int) -> Precision:
        """How it multiplies matrices for a layer of so many units."""
        return "fp32"

    def products(self, precision: Precision) -> AbstractContextManager[Any]:
        """A context in which torch's own products have the precision of this engine."""
        return nullcontext()

    def kernel(self, key: str, dtype: torch.dtype, precision: Precision) -> Kernel:
        """What runs the unit of this key on tensors of this dtype."""
        raise NotImplementedError

    def saved_blocks(self, of: Derived, precision: Precision) -> list[int]:
        """How many blocks of (time, batch, hidden) each tensor of `Results.saved` has."""
        return [max(len(of.kept.values), 1)]


class OnGpus(Engine):
    """A way to run a unit in kernels of CUDA.

    `frame` is the module of the engine: its `obstacle` and its `run`.
    """

    def __init__(self, name: str, description: str, frame: Any, slower: Reason | None) -> None:
        super().__init__(name, description)
        self.frame, self._slower = frame, slower

    def obstacle(self, work: Work) -> Obstacle | None:
        reason = self.frame.obstacle(work.layer)
        if reason is not None:
            # The last engine for GPUs is never slower: without it a slow one runs, so "auto" warns.
            return Obstacle(reason, self._slower is None and work.layer.device.type == "cuda")
        return super().obstacle(work)

    def slower(self, layer: Layer) -> str | None:
        return None if self._slower is None else self._slower(layer)

    def precision(self, dtype: torch.dtype, units: int) -> Precision:
        return launching.product_for(dtype, units)

    def products(self, precision: Precision) -> AbstractContextManager[Any]:
        return launching.products(precision)

    def kernel(self, key: str, dtype: torch.dtype, precision: Precision) -> Kernel:
        return _on_gpu(self.frame.run, key, precision)

    def saved_blocks(self, of: Derived, precision: Precision) -> list[int]:
        return saved_blocks(of, precision)


@cache
def _on_gpu(run: launching.Run, key: str, precision: Precision) -> Kernel:
    return OnGpu(derived(key, precision == "bf16"), run, precision)


class OnCpu(Engine):
    """Compiled C++."""

    def obstacle(self, work: Work) -> Obstacle | None:
        device = work.layer.device.type
        if device != "cpu":
            return Obstacle(f"it runs on a CPU, and the tensors are on {device}", False)
        common = super().obstacle(work)
        if common is not None:
            return common
        missing = _missing_kernel(work.key, state_dtype(work.layer.dtype))
        return None if missing is None else Obstacle(missing, True)

    def kernel(self, key: str, dtype: torch.dtype, precision: Precision) -> Kernel:
        found = native.compiled(key, dtype)
        if isinstance(found, str):
            raise BuildError(found)
        return found


@constant_when_traced
def _missing_kernel(key: str, dtype: torch.dtype) -> str | None:
    found = native.compiled(key, dtype)
    return found if isinstance(found, str) else None


class InPlainTorch(Engine):
    """Operations of torch, with the derived backward pass."""

    def kernel(self, key: str, dtype: torch.dtype, precision: Precision) -> Kernel:
        return Eager(derived(key))


class Reference(Engine):
    """The unit's own functions, differentiated by autograd; it can run anything."""

    def obstacle(self, work: Work) -> Obstacle | None:
        return None


def _untraceable(unit: Unit) -> str:
    """Why the unit has no key."""
    what = type(unit).__name__
    if isinstance(unit, RDA):
        names = zip(("attention", "hidden", "output"), unit.choices, strict=True)
        what = " and ".join(name for name, choice in names if not isinstance(choice, str))
    return (
        f"{what} is a callable that calls other functions than those of rda.functions, and the "
        "engine knows these and the paper's functions by name"
    )


ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        OnGpus(
            "block",
            "one kernel for the whole sequence, a block for every few rows, in float32",
            block,
            choosing.block_is_slower,
        ),
        OnGpus(
            "cuda",
            "one kernel for the whole sequence, the weights on chip in a cluster of blocks",
            onchip,
            choosing.cluster_is_slower,
        ),
        OnGpus(
            "grid",
            "one kernel for the whole sequence, the weights on chip all over the GPU, in bf16",
            grid,
            choosing.grid_is_slower,
        ),
        OnGpus(
            "graph", "a product and a kernel for every step, replayed as CUDA graphs", steps, None
        ),
        OnCpu("cpu", "compiled C++, vectorised, the batch split over threads"),
        InPlainTorch("eager", "plain PyTorch with the derived backward pass, on any device"),
        Reference(
            "reference", "a Python loop over the unit's equations, on any device, with any callable"
        ),
    )
}
"""Every engine by name, in the order in which "auto" tries them."""

ON_GPUS = tuple(name for name, engine in ENGINES.items() if isinstance(engine, OnGpus))
"""Those that run a sequence in a few launches: a CUDA graph of a training step stays short."""
