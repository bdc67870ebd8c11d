"""The comparison on a CPU.

Subjects take turns in one process, so that other work on the machine slows all of them alike. A
turn is one step that is not timed and one that is: the first one brings the subject's memory back
into the caches, which a training run does not pay for at every step. Peak memory is what one
training step in a fresh process adds to the memory that the process held before. One small case is
also measured beside processes that never pause, because threads that wait for each other suffer
most from them.

How much is measured is set by counts of rounds and steps, never by seconds.
"""

import contextlib
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from machine import machine
from measuring import Case, Progress, forward, seconds, summary, train
from torch import nn

import rda

CASES = [
    Case(250, 100, 200, 10),
    Case(250, 100, 200, 250),
    Case(128, 32, 200, 10),
    Case(250, 1, 500, 10),
    Case(64, 16, 200, 10),
    Case(512, 64, 100, 10),
]
BESIDE_BUSY_PROCESSES = Case(64, 9, 200, 10)
BUSY_PROCESSES = 2
BUSY = """
import os, threading
threading.Thread(target=lambda: os.read(0, 1) or os._exit(0)).start()
while True:
    pass
"""
"""A process that never pauses, and ends with the one that holds its stdin."""
QUICK = [Case(128, 32, 20, 10), Case(250, 1, 20, 10)]
ROUNDS, QUICK_ROUNDS = 11, 5

SUBJECTS: dict[str, Callable[[int, int], nn.Module]] = {
    "nn.LSTM": nn.LSTM,
    "nn.GRU": nn.GRU,
    "RDA-exp-tanh": lambda i, h: rda.build("RDA-exp-tanh", i, h),
    "RDA-sigmoid-id": lambda i, h: rda.build("RDA-sigmoid-id", i, h),
    "RWA": lambda i, h: rda.build("RWA", i, h),
    "rda's LSTM": lambda i, h: rda.build("LSTM", i, h),
    "rda's GRU": lambda i, h: rda.build("GRU", i, h),
    "RDA, engine eager": lambda i, h: rda.RDA(i, h, engine="eager"),
    "RDA, engine reference": lambda i, h: rda.RDA(i, h, engine="reference"),
}

STREAMS: dict[str, Callable[[int, int], Callable[..., Any]]] = {
    "nn.LSTMCell": nn.LSTMCell,
    "RDACell": rda.RDACell,
    "RWACell": rda.RWACell,
    "nn.LSTM, one step a call": nn.LSTM,
    "RDA, one step a call": rda.RDA,
    "RWA, one step a call": rda.RWA,
}
STREAM_ROUNDS, STREAM_STEPS, QUICK_STREAM_STEPS = 15, 500, 50


def measure(quick: bool, rounds: int | None) -> dict[str, Any]:
    """All cases and the single steps, as they are recorded."""
    cases = QUICK if quick else CASES
    rounds = rounds or (QUICK_ROUNDS if quick else ROUNDS)
    steps = QUICK_STREAM_STEPS if quick else STREAM_STEPS
    stream_rounds = rounds if quick else STREAM_ROUNDS
    stamp = machine(torch.device("cpu"))  # of the code that is loaded now
    progress = Progress((len(cases) + (not quick)) * rounds + stream_rounds)
    entries = []
    for case in cases:
        times = compare(case, rounds, progress)
        entry = {**asdict(case), "rounds": rounds, "times_ms": times}
        if not quick:
            entry["peak_memory_mb"] = {name: peak_memory(name, case) for name in SUBJECTS}
        entries.append(entry)
    if not quick:
        entries.append(compare_beside_busy_processes(rounds, progress))
    streaming = {"units": 250, "times": stream(250, steps, stream_rounds, progress)}
    return {"machine": stamp, "cases": entries, "streaming_us": streaming}


def compare(case: Case, rounds: int, progress: Progress) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds per step of every subject, measured in turns."""
    torch.manual_seed(0)
    x = torch.randn(case.time, case.batch, case.inputs)
    models = {name: make(case.inputs, case.units) for name, make in SUBJECTS.items()}
    actions = {"forward": forward, "training": train}
    samples: dict[str, dict[str, list[float]]] = {
        name: {kind: [] for kind in actions} for name in models
    }
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


def compare_beside_busy_processes(rounds: int, progress: Progress) -> dict[str, Any]:
    """One case, as it is recorded, while other processes want the same cores."""
    case = BESIDE_BUSY_PROCESSES
    with busy_processes(BUSY_PROCESSES):
        times = compare(case, rounds, progress)
    return {**asdict(case), "busy_processes": BUSY_PROCESSES, "rounds": rounds, "times_ms": times}


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that never pause, until the block ends."""
    command = [sys.executable, "-c", BUSY]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()  # closes its stdin too


def stream(units: int, steps: int, rounds: int, progress: Progress) -> dict[str, dict[str, float]]:
    """Microseconds per single step at batch size 1, with the state carried and no gradients."""
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
    for _ in range(rounds):
        for name in models:
            samples[name].append(seconds(run, name) / steps)
        progress.step(f"single steps, {units} units")
    return {name: summary(values, 1e6) for name, values in samples.items()}


def peak_memory(subject: str, case: Case) -> float | None:
    """Megabytes that one training step adds, in a process of its own; None if not on Linux."""
    question = json.dumps({"subject": subject, **asdict(case)})
    command = [sys.executable, __file__, str(torch.get_num_threads()), question]
    answer = subprocess.run(command, capture_output=True, text=True)
    return float(answer.stdout) if answer.returncode == 0 else None


def answer_memory(threads: str, question: str) -> None:
    """The work of the process that `peak_memory` starts."""
    torch.set_num_threads(int(threads))
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


if __name__ == "__main__":
    answer_memory(*sys.argv[1:])
