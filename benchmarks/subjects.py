"""The modules that are compared on a GPU."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from measuring import Case
from torch import Tensor, nn
from torch.nn import functional as F

import rda
from rda.functional import scan
from rda.scan.engines import ON_GPUS
from rda.training.precision import matmul_precision

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


class CompiledSteps(nn.Module):
    """The reference, compiled one step at a time: compiling the whole loop takes too long."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.layer = rda.RDA(inputs, units)
        self.step = torch.compile(partial(scan, choices=self.layer.choices, engine="reference"))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        weight_ih, weight_hh, bias = self.layer.all_weights[0]
        state = None
        outputs = []
        for projected in F.linear(x, weight_ih, bias).split(1):
            output, state = self.step(projected, weight_hh, state)
            outputs.append(output)
        return torch.cat(outputs), None

    def engine_for(self, x: Tensor) -> str:
        """The name of the engine, as the layers of `rda` give it."""
        return "reference, compiled"


class FlashLSTM(nn.Module):
    """The LSTM of the package flashrnn, if installed, with one head as wide as the layer."""

    def __init__(self, inputs: int, units: int) -> None:
        from flashrnn import flashrnn  # type: ignore[import-not-found]

        super().__init__()
        self.scan = partial(flashrnn, function="lstm", backend="cuda_fused")
        self.projection = nn.Linear(inputs, 4 * units, bias=False)
        self.recurrent = nn.Parameter(torch.randn(4, 1, units, units) / units**0.5)
        self.bias = nn.Parameter(torch.zeros(4, 1, units))

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        projected = self.projection(x.transpose(0, 1)).unflatten(-1, (4, 1, -1))
        states, last = self.scan(projected, self.recurrent, self.bias)
        return states[0], last

    def engine_for(self, x: Tensor) -> str:
        """The name of the engine, as the layers of `rda` give it."""
        return "flashrnn"


ENGINES = ON_GPUS
"""The engines for GPUs."""

SUBJECTS: dict[str, Callable[[int, int], nn.Module]] = {
    "nn.LSTM": nn.LSTM,
    "nn.GRU": nn.GRU,
    "RDA-exp-tanh": partial(rda.build, "RDA-exp-tanh"),
    "RDA-sigmoid-id": partial(rda.build, "RDA-sigmoid-id"),
    "RWA": partial(rda.build, "RWA"),
    "rda's LSTM": partial(rda.build, "LSTM"),
    "rda's GRU": partial(rda.build, "GRU"),
    **{f"RDA, engine {name}": partial(rda.build, "RDA", engine=name) for name in ENGINES},
    "RDA, engine reference": partial(rda.RDA, engine="reference"),
    "RDA, engine reference, compiled": CompiledSteps,
    "FlashRNN LSTM": FlashLSTM,
}
LOOPS = ("RDA, engine reference", "RDA, engine reference, compiled")
LAYERS = (
    *("nn.LSTM", "nn.GRU"),
    *("RDA-exp-tanh", "RDA-sigmoid-id", "RWA", "rda's LSTM", "rda's GRU"),
)


class Subject:
    """A module and its input, for one size, device and precision."""

    def __init__(self, name: str, precision: str, case: Case, device: torch.device) -> None:
        torch.manual_seed(0)
        dtype = DTYPES[precision]
        self.model = SUBJECTS[name](case.inputs, case.units).to(device, dtype)
        self.input = torch.randn(
            case.time, case.batch, case.inputs, device=device, dtype=torch.float32
        ).to(dtype)
        self.products = "float32" if precision == "fp32" else "tf32"

    def steps(self, action: Callable[[nn.Module, Tensor], None]) -> Callable[[int], None]:
        """A function of a count, which does the action that often."""

        def run(count: int) -> None:
            with matmul_precision(self.products):
                for _ in range(count):
                    action(self.model, self.input)

        return run

    @property
    def can_run(self) -> bool:
        """Whether the module's engine can run this size."""
        try:
            return bool(self.engine)
        except rda.EngineUnavailableError:
            return False

    @property
    def engine(self) -> str:
        """The name of what runs the module: one of our engines, cuDNN or torch.nn."""
        model: Any = self.model
        with matmul_precision(self.products):
            if hasattr(model, "engine_for"):
                return str(model.engine_for(self.input))
        return "cuDNN" if self.input.is_cuda else "torch.nn"
