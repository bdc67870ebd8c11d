"""What limits scaling: the model of a step on several processes, and its tables.

    T(n) = a + b * batch / n + reduce(bytes, n) + 2 reduce(0, n)
    reduce(bytes, n) = 2 (n - 1) / n * bytes / bandwidth + 2 (n - 1) * latency

`a` is what a step takes whatever its rows: time steps come one after the other. Nothing of the
reducing is hidden behind the backward pass: the gradient of a recurrent weight is a sum over all
time steps, and is not there before the last of them. Besides the gradients, processes exchange two
short messages a step: what comes next, and the loss.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cpu_table import spread
from gpu_table import stamp

from rda.training.building import build_model
from rda.training.settings import full_settings

H200 = Path(__file__).parent / "results" / "h200.json"
BYTES = 4
"""Of a gradient: it is float32 in every precision of training."""
ENWIK8_SYMBOLS = 205


@dataclass(frozen=True)
class Line:
    """Milliseconds that grow in a straight line."""

    fixed: float
    each: float

    def at(self, x: float) -> float:
        return self.fixed + self.each * x


def fit(points: Mapping[float, float]) -> Line:
    """The line with the least squares of relative differences."""
    weights = [1 / y**2 for y in points.values()]
    total = sum(weights)
    middle_x = sum(w * x for w, x in zip(weights, points, strict=True)) / total
    middle_y = sum(w * y for w, y in zip(weights, points.values(), strict=True)) / total
    across = along = 0.0
    for weight, (x, y) in zip(weights, points.items(), strict=True):
        across += weight * (x - middle_x) * (y - middle_y)
        along += weight * (x - middle_x) ** 2
    each = across / along
    return Line(middle_y - each * middle_x, each)


@dataclass(frozen=True)
class Network:
    """How fast neighbours in a ring send to each other."""

    bytes_a_ms: float
    latency_ms: float

    def step(self, bytes: float, processes: int) -> float:
        """Milliseconds of all that processes send in a step."""
        return self.reduce(bytes, processes) + 2 * self.reduce(0, processes)

    def reduce(self, bytes: float, processes: int) -> float:
        """Milliseconds in which a ring adds up so many bytes of each."""
        sent = 2 * (processes - 1) / processes * bytes
        return sent / self.bytes_a_ms + 2 * (processes - 1) * self.latency_ms


def network_of(cases: Sequence[dict[str, Any]]) -> Network:
    """The network of a record, from what two processes took to add up alone."""
    line = fit(
        {BYTES * case["parameters"]: case["teams"]["2"]["reducing_ms"]["median"] for case in cases}
    )
    return Network(1 / line.each, line.fixed / 2)


def compute_of(case: dict[str, Any]) -> Line:
    """The time of a step of one process, by rows."""
    return fit({float(rows): times["median"] for rows, times in case["alone_ms"].items()})


def measured_table(results: dict[str, Any]) -> str:
    """Steps as predicted beside steps as measured."""
    cases, cores = results["scaling"], results["machine"]["cores"]
    network = network_of(cases)
    lines = [
        "| units | megabytes reduced | processes | compute | reducing alone | step by the formula "
        "| step measured | times as fast as one |",
        "|---|---:|---:|---:|---:|---:|---|---:|",
    ]
    for case in cases:
        alone = case["alone_ms"][str(case["batch"])]
        start = f"| {case['units']} | {BYTES * case['parameters'] / 1e6:.2f} |"
        found = _compute(case, 1, cores)
        lines.append(f"{start} 1 | {found:.1f} | | {found:.1f} | {spread(alone, 1)} | 1.00 |")
        for size, times in case["teams"].items():
            share, step = _compute(case, int(size), cores), times["step_ms"]
            found = _step(case, network, int(size), cores)
            lines.append(
                f"{start} {size} | {share:.1f} | {times['reducing_ms']['median']:.2f} | "
                f"{found:.1f} | {spread(step, 1)} | {alone['median'] / step['median']:.2f} |"
            )
    return "\n".join(lines)


def accuracy_line(results: dict[str, Any]) -> str:
    """How the steps of teams by the formula compare with those measured."""
    network, cores = network_of(results["scaling"]), results["machine"]["cores"]
    parts = []
    for case in results["scaling"]:
        ratios = [
            _step(case, network, int(size), cores) / times["step_ms"]["median"]
            for size, times in case["teams"].items()
        ]
        said = " and ".join(f"{ratio:.2f}" for ratio in ratios)
        parts.append(f"{said} at {case['units']} units")
    return "The formula divided by the measurement: " + ", ".join(parts)


def _compute(case: dict[str, Any], processes: int, cores: int) -> float:
    """Processes that share a core compute one after the other."""
    return compute_of(case).at(case["batch"] / processes) * max(1, processes / cores)


def _step(case: dict[str, Any], network: Network, processes: int, cores: int) -> float:
    sent = network.step(BYTES * case["parameters"], processes)
    return _compute(case, processes, cores) + sent


def lines_table(results: dict[str, Any]) -> str:
    """The floor and the time of a row, by units."""
    lines = [
        "| units | parameters | a, ms | b, ms a row | most that more processes can gain |",
        "|---|---:|---:|---:|---:|",
    ]
    for case in results["scaling"]:
        line = compute_of(case)
        most = line.at(case["batch"]) / line.fixed if line.fixed > 0 else float("inf")
        lines.append(
            f"| {case['units']} | {case['parameters']:,} | {line.fixed:.2f} | {line.each:.3f} | "
            f"{most:.1f} times |"
        )
    return "\n".join(lines)


def network_line(results: dict[str, Any]) -> str:
    """What the processes of this record send."""
    network = network_of(results["scaling"])
    return (
        f"{network.bytes_a_ms / 1e6:.2f} GB/s and {1e3 * network.latency_ms:.0f} microseconds a "
        "message"
    )


def torchrun_line(results: dict[str, Any]) -> str:
    """torchrun with one process beside none."""
    part = results["torchrun_alone"]
    alone, under = (statistics.median(rates) for rates in part["steps_a_second"].values())
    ratios = [b / a for a, b in zip(*part["steps_a_second"].values(), strict=True)]
    return (
        f"`torchrun --nproc-per-node 1 -m rda train` makes {under:.0f} steps a second and `rda "
        f"train` {alone:.0f} (medians of {part['turns']} turns of {part['steps']} steps each; "
        f"ratio of a turn {min(ratios):.2f} to {max(ratios):.2f})"
    )


def render(results: dict[str, Any]) -> str:
    """The record as Markdown."""
    machine = results["machine"]
    return "\n\n".join(
        (
            f"{machine['cpu']} ({machine['vectors']}), {machine['cores']} cores, one thread a "
            f"process, torch {machine['torch']}, Python {machine['python']}.",
            f"{results['unit']} on {results['task']}, {results['time']} time steps, batch "
            f"{results['scaling'][0]['batch']}, Gloo over the loopback: "
            f"{network_line(results)}. Milliseconds, median (lower to upper quartile).",
            lines_table(results),
            measured_table(results),
            f"{accuracy_line(results)}.",
            f"{torchrun_line(results)}.",
            stamp(machine),
        )
    )


NVLINK = Network(450e9 / 1e3, 0.002)
INFINIBAND = Network(400e9 / 8 / 1e3, 0.005)
"""Assumptions: bytes and messages in one direction between two neighbours."""


@dataclass(frozen=True)
class OnH200:
    """A run whose layer was timed on one H200 at several batch sizes."""

    task: str
    symbols: int
    units: int
    batch: int
    precision: str
    grid: str
    """The part of the record with small batches, whose other sizes are those of the whole."""
    whole: str
    """The part of the record with the whole batch."""

    def times(self) -> dict[float, float]:
        """Milliseconds of a training step of the layer, by rows; up to the batch."""
        parts = json.loads(H200.read_text())["parts"]
        found = {
            float(cell["batch"]): cell["training"]["RDA-exp-tanh"]["median"]
            for cell in parts[self.grid]["cells"]
            if (cell["precision"], cell["units"]) == (self.precision, self.units)
            and cell["batch"] < self.batch
        }
        for comparison in parts[self.whole]["comparisons"]:
            if (comparison["units"], comparison["batch"]) == (self.units, self.batch):
                for subject in comparison["subjects"]:
                    if (subject["name"], subject["precision"]) == ("RDA-exp-tanh", self.precision):
                        found[float(self.batch)] = subject["training"]["median"]
        return found

    @cache  # noqa: B019
    def parameters(self) -> int:
        """Of the whole model."""
        settings = full_settings(self.task, "RDA-exp-tanh")
        task = settings.task
        sizes = (self.symbols,) * 2 if self.symbols else (task.input_size, task.output_size)
        return sum(p.numel() for p in build_model(settings, *sizes).parameters())


WORKED_OUT = (
    OnH200("multicopy", 0, 250, 100, "tf32", "long", "main"),
    OnH200("wikipedia", ENWIK8_SYMBOLS, 1800, 128, "bf16", "grid", "large"),
)
GPUS = {1: NVLINK, 8: NVLINK, 64: INFINIBAND}


def worked_out_table() -> str:
    """The formula for GPUs that were not there: the batch shared, and a whole batch on each."""
    lines = [
        "| run | GPUs | rows each | compute, ms | messages, ms | step, ms | times as fast as one "
        "| a whole batch on each: rows a second, times those of one |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for run in WORKED_OUT:
        compute, bytes = fit(run.times()), BYTES * run.parameters()
        alone = compute.at(run.batch)
        name = f"{run.units} units, batch {run.batch}, {run.precision}"
        for gpus, network in GPUS.items():
            share, reducing = compute.at(run.batch / gpus), network.step(bytes, gpus)
            step = share + reducing
            lines.append(
                f"| {name} | {gpus} | {run.batch / gpus:.4g} | {share:.2f} | {reducing:.2f} | "
                f"{step:.2f} | {alone / step:.2f} | {gpus * alone / (alone + reducing):.1f} |"
            )
    return "\n".join(lines)
