"""Units of one's own beside the same cells as loops: the example of docs/units.md and two more.

    python benchmarks/own_unit.py               on this machine's GPU, or else its CPU
    python benchmarks/own_unit.py --record      also write results/own_unit_gpu.json or _cpu.json

The first is an LSTM with peepholes. As a loop it is what one writes with torch: a module for a
step, called once for every step; then the same with that step under torch.compile. The loops of the
other two are their reference engine. All take turns in one process, in training steps, beside
nn.LSTM.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from cpu_table import spread
from gpu_table import hardware, stamp
from machine import machine
from measuring import Case, Contestant, take_turns, train
from torch import Tensor, nn

import rda
from rda.files import write_atomically
from rda.functions import log_sigmoid, relu, sigmoid, tanh, where
from rda.training.precision import matmul_precision
from rda.units import RDA

RESULTS = Path(__file__).parent / "results"
PEER = "nn.LSTM"
CASES = {
    "cuda": (Case(250, 100, 1000, 64),),
    "cpu": (Case(128, 32, 100, 64), Case(250, 100, 100, 64)),
}


class Peephole(rda.Unit):
    """An LSTM whose gates see the cell (Gers and Schmidhuber, 2000)."""

    inputs = recurrent = "i", "f", "g", "o"
    state = "h", "c"
    weights = "of_i", "of_f", "of_o"

    def step(self, x: Any, h: Any, s: Any, w: Any) -> Any:
        i = sigmoid(x.i + h.i + w.of_i * s.c)
        f = sigmoid(x.f + h.f + w.of_f * s.c)
        c = f * s.c + i * tanh(x.g + h.g)
        return sigmoid(x.o + h.o + w.of_o * c) * tanh(c), c


class ConstantDecay(RDA):
    """An RDA whose discount is learned, one for each unit and the same at every step."""

    inputs = "u", "g", "a"
    recurrent = "g", "a"
    weights = ("gamma",)

    def step(self, x: Any, h: Any, s: Any, *weights: Any) -> Any:
        return self.average(x, h, s, s.l + log_sigmoid(weights[0].gamma))


class Rectified(rda.Unit):
    """A gated unit with ReLU, a condition and two states, whose h is a function of both."""

    inputs = "z", "n", "k"
    recurrent = "z", "n"
    state = "a", "b"

    def step(self, x: Any, h: Any, s: Any) -> Any:
        z = sigmoid(x.z + h.z)
        a = z * s.a + (1 - z) * relu(x.n + h.n)
        return a, where(x.k > 0, 0.5 * s.b + a, s.b)

    def hidden(self, s: Any) -> Any:
        return tanh(s.a + 0.1 * s.b)


class Loop(nn.Module):
    """The LSTM with peepholes in torch's operations, one step after another."""

    def __init__(self, inputs: int, units: int, compiled: bool) -> None:
        super().__init__()
        self.of_x, self.of_h = nn.Linear(inputs, 4 * units), nn.Linear(units, 4 * units, bias=False)
        self.peepholes = nn.Parameter(torch.zeros(3, units))
        self.step = torch.compile(self._step) if compiled else self._step

    def _step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (x + self.of_h(h)).chunk(4, -1)
        of_i, of_f, of_o = self.peepholes
        c = torch.sigmoid(f + of_f * c) * c + torch.sigmoid(i + of_i * c) * torch.tanh(g)
        return torch.sigmoid(o + of_o * c) * torch.tanh(c), c

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """All steps."""
        h = c = x.new_zeros(x.shape[1], self.of_h.in_features)
        outputs = []
        for step in self.of_x(x):
            h, c = self.step(step, h, c)
            outputs.append(h)
        return torch.stack(outputs), (h, c)


SUBJECTS: dict[str, Callable[[int, int], nn.Module]] = {
    PEER: nn.LSTM,
    "Peephole in a loop": lambda inputs, units: Loop(inputs, units, compiled=False),
    "Peephole in a loop, its step under torch.compile": lambda inputs, units: Loop(
        inputs, units, compiled=True
    ),
    "rda.Recurrent(Peephole())": lambda inputs, units: rda.Recurrent(Peephole(), inputs, units),
    "ConstantDecay in a loop": lambda inputs, units: rda.Recurrent(
        ConstantDecay(), inputs, units, engine="reference"
    ),
    "rda.Recurrent(ConstantDecay())": lambda inputs, units: rda.Recurrent(
        ConstantDecay(), inputs, units
    ),
    "Rectified in a loop": lambda inputs, units: rda.Recurrent(
        Rectified(), inputs, units, engine="reference"
    ),
    "rda.Recurrent(Rectified())": lambda inputs, units: rda.Recurrent(Rectified(), inputs, units),
}


def measure(case: Case, precision: str, device: torch.device, rounds: int) -> dict[str, Any]:
    """Training steps of all subjects at one size."""
    x = torch.randn(case.time, case.batch, case.inputs, device=device)
    contestants = {}
    with matmul_precision(precision):
        for name, make in SUBJECTS.items():
            torch.manual_seed(0)
            model = make(case.inputs, case.units).to(device)

            def run(count: int, model: nn.Module = model) -> None:
                for _ in range(count):
                    train(model, x)

            contestants[name] = Contestant(run, device)
        take_turns(contestants.values(), rounds)
    subjects = {name: each.result() for name, each in contestants.items()}
    return {"case": asdict(case), "precision": precision, "subjects": subjects}


def render(results: dict[str, Any]) -> str:
    """The record as Markdown."""
    parts = [hardware(results["machine"])]
    for part in results["own_unit"]:
        case, subjects = part["case"], part["subjects"]
        peer = subjects[PEER]["median"]
        lines = [
            f"**{case['units']} units, batch {case['batch']}, {case['time']} steps, "
            f"{part['precision']}**",
            "",
            f"| layer | ms a training step | beside {PEER} |",
            "|---|---|---|",
        ]
        for name, times in subjects.items():
            shown = spread(times, 2)
            lines.append(f"| {name} | {shown} | **{peer / times['median']:.2f}x** |")
        parts.append("\n".join(lines))
    return "\n\n".join((*parts, stamp(results["machine"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precisions = ("float32", "tf32") if device.type == "cuda" else ("float32",)
    results: dict[str, Any] = {"machine": machine(device), "own_unit": []}
    for case in CASES[device.type]:
        for precision in precisions:
            results["own_unit"].append(measure(case, precision, device, asked.rounds))
    print(render(results))
    if asked.record:
        kind = "gpu" if device.type == "cuda" else "cpu"
        text = json.dumps(results, indent=1) + "\n"
        write_atomically(RESULTS / f"own_unit_{kind}.json", text.encode())


if __name__ == "__main__":
    main()
