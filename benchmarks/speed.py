"""Speed and memory of our units beside torch's, in one run.

    python benchmarks/speed.py                    the whole table, some minutes
    python benchmarks/speed.py --quick            a first impression, in seconds
    python benchmarks/speed.py --record cpu       also write results/cpu.json and README.md

Subjects take turns within one process, so that whatever the machine is doing meets them all. A
turn is one step that is not timed and one that is: the memory that a subject uses was last
used by another one, and a training run would not pay for that at every step. Figures are medians
with the quartiles beside them. A training step is forward and backward over
the whole sequence. Peak memory is that of one training step in a fresh process, above what the
process held before it.
"""

import argparse
import gc
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import torch
from table import render_readme, render_results
from torch import nn

import rda

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """The size of one comparison."""

    units: int
    batch: int
    time: int
    inputs: int


CASES = [
    Case(250, 100, 200, 10),
    Case(250, 100, 200, 250),
    Case(128, 32, 200, 10),
    Case(250, 1, 500, 10),
    Case(64, 16, 200, 10),
    Case(512, 64, 100, 10),
]
QUICK = [Case(128, 32, 100, 10), Case(250, 1, 100, 10)]

SUBJECTS: dict[str, Callable[[int, int], nn.Module]] = {
    "nn.LSTM": nn.LSTM,
    "nn.GRU": nn.GRU,
    "RDA-exp-tanh": lambda i, h: rda.build("RDA-exp-tanh", i, h),
    "RDA-sigmoid-id": lambda i, h: rda.build("RDA-sigmoid-id", i, h),
    "RWA": lambda i, h: rda.build("RWA", i, h),
    "RDA, engine torch": lambda i, h: rda.RDA(i, h, engine="torch"),
    "RDA, engine reference": lambda i, h: rda.RDA(i, h, engine="reference"),
}


def forward(model: nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        model(x)


def train(model: nn.Module, x: torch.Tensor) -> None:
    output, _ = model(x)
    output.backward(torch.ones_like(output))
    model.zero_grad()


def seconds(action: Callable[..., None], *arguments: object) -> float:
    started = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - started


def summary(samples: list[float], scale: float) -> dict[str, float]:
    """Median and quartiles, in the unit that `scale` makes."""
    low, middle, high = statistics.quantiles(samples, n=4)
    return {"median": middle * scale, "low": low * scale, "high": high * scale}


class Progress:
    """One line with an estimate of what is left."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.started = total, 0, time.perf_counter()

    def step(self, text: str) -> None:
        self.done += 1
        spent = time.perf_counter() - self.started
        left = spent / self.done * (self.total - self.done)
        end = "\n" if self.done == self.total else ""
        if sys.stderr.isatty():
            line = f"[{self.done}/{self.total}] about {left:.0f} s left  {text}"
            print(f"\r{line:<78}", end=end, file=sys.stderr, flush=True)


def compare(case: Case, rounds: int, progress: Progress) -> dict[str, dict[str, dict[str, float]]]:
    """Every subject's times in milliseconds, taken in turns."""
    torch.manual_seed(0)
    x = torch.randn(case.time, case.batch, case.inputs)
    models = {name: make(case.inputs, case.units) for name, make in SUBJECTS.items()}
    actions = {"forward": forward, "training": train}
    samples = {name: {kind: [] for kind in actions} for name in models}
    for model in models.values():
        for action in actions.values():
            action(model, x)
    for _ in range(rounds):
        for kind, action in actions.items():
            for name, model in models.items():
                action(model, x)
                samples[name][kind].append(seconds(action, model, x))
        progress.step(f"{case.units} units, batch {case.batch}")
    return {
        name: {kind: summary(values, 1e3) for kind, values in kinds.items()}
        for name, kinds in samples.items()
    }


STREAMS: dict[str, Callable[[int, int], Callable[..., object]]] = {
    "nn.LSTMCell": nn.LSTMCell,
    "RDACell": rda.RDACell,
    "RWACell": rda.RWACell,
    "nn.LSTM, one step a call": nn.LSTM,
    "RDA, one step a call": rda.RDA,
    "RWA, one step a call": rda.RWA,
}


def stream(units: int, steps: int, progress: Progress) -> dict[str, dict[str, float]]:
    """Microseconds a step, one row, the state carried, without gradients."""
    inputs = 10
    models = {name: make(inputs, units) for name, make in STREAMS.items()}
    samples: dict[str, list[float]] = {name: [] for name in models}

    def run(name: str) -> None:
        is_cell = "Cell" in name
        x = torch.randn(1, inputs) if is_cell else torch.randn(1, 1, inputs)
        state = None
        with torch.inference_mode():
            for _ in range(steps):
                result = models[name](x, state)
                state = result if is_cell else result[1]

    for name in models:
        run(name)
    for _ in range(15):
        for name in models:
            samples[name].append(seconds(run, name) / steps)
        progress.step(f"single steps, {units} units")
    return {name: summary(values, 1e6) for name, values in samples.items()}


def peak_memory(subject: str, case: Case) -> float | None:
    """Megabytes that one training step adds, in a process of its own; None but on Linux."""
    question = json.dumps({"subject": subject, **asdict(case)})
    command = [sys.executable, __file__, "--threads", str(torch.get_num_threads())]
    answer = subprocess.run([*command, "--memory-of", question], capture_output=True, text=True)
    return json.loads(answer.stdout) if answer.returncode == 0 else None


def answer_memory(question: str) -> None:
    asked = json.loads(question)
    model = SUBJECTS[asked.pop("subject")](asked["inputs"], asked["units"])
    case = Case(**asked)
    x = torch.randn(case.time, case.batch, case.inputs)
    train(model, x[:2])
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    train(model, x)
    print(json.dumps((_status("VmHWM") - before) / 1024))


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise LookupError(field)


def machine() -> dict[str, object]:
    """Everything that a figure depends on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if "model name" in x), model)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=FOLDER
    ).stdout.strip()
    return {
        "cpu": model,
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "rda": rda.__version__,
        "commit": commit,
        "date": date.today().isoformat(),
        "command": " ".join(["python", "benchmarks/speed.py", *sys.argv[1:]]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two small sizes, seconds")
    parser.add_argument("--rounds", type=int, help="turns a subject gets (11, quick: 5)")
    parser.add_argument("--threads", type=int, help="threads for all (torch's default)")
    parser.add_argument("--record", metavar="NAME", help="write results/NAME.json and README.md")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rounds is not None and asked.rounds < 2:
        parser.error("--rounds should be 2 or more: a spread needs that")
    if asked.quick and asked.record:
        parser.error("--quick is for looking: record a whole run")
    if asked.threads:
        torch.set_num_threads(asked.threads)
    if asked.memory_of:
        answer_memory(asked.memory_of)
        return
    cases = QUICK if asked.quick else CASES
    rounds = asked.rounds or (5 if asked.quick else 11)
    progress = Progress(len(cases) * rounds + 15)
    results: dict[str, object] = {"machine": machine(), "cases": []}
    for case in cases:
        times = compare(case, rounds, progress)
        entry = {**asdict(case), "rounds": rounds, "times_ms": times}
        if not asked.quick:
            entry["peak_memory_mb"] = {name: peak_memory(name, case) for name in SUBJECTS}
        results["cases"].append(entry)  # type: ignore[attr-defined]
    steps = 50 if asked.quick else 500
    results["streaming_us"] = {"units": 250, "times": stream(250, steps, progress)}
    print(render_results(results))
    if asked.record:
        to = FOLDER / "results" / f"{asked.record}.json"
        to.write_text(json.dumps(results, indent=1) + "\n")
        (FOLDER / "README.md").write_text(render_readme())
        print(f"\nwritten: {to} and {FOLDER / 'README.md'}")


if __name__ == "__main__":
    main()
