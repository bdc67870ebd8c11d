"""A small layer on two threads beside processes that never pause, from its first step on.

    python benchmarks/beside_busy.py               a table
    python benchmarks/beside_busy.py --record      also write results/beside_busy.json

Threads that wait for each other suffer most from other processes, and the first seconds of a
process are not like later ones. So every turn is a new process, and each of its steps is kept: the
two layers take turns step by step, so that what else the machine does meets both.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from cpu_table import size, spread
from gpu_table import stamp
from machine import machine
from measuring import Case, seconds, summary, train
from on_cpu import BUSY_PROCESSES, busy_processes
from torch import nn

import rda
from rda.files import write_atomically
from rda.wording import counted

RESULTS = Path(__file__).parent / "results" / "beside_busy.json"
CASE = Case(24, 9, 20, 8)
THREADS = 2
LAYERS = {"RDA": rda.RDA, "nn.LSTM": nn.LSTM}
FIRST = 200
"""So many steps of a turn are told apart from those after them."""


def one_turn(steps: int) -> dict[str, list[float]]:
    """Seconds of each training step of each layer, from the first one of this process on."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    x = torch.randn(CASE.time, CASE.batch, CASE.inputs)
    models = {name: layer(CASE.inputs, CASE.units) for name, layer in LAYERS.items()}
    taken: dict[str, list[float]] = {name: [] for name in models}
    for step in range(steps):
        for name in sorted(models, reverse=bool(step % 2)):
            taken[name].append(seconds(train, models[name], x))
    return taken


def in_a_new_process(steps: int) -> dict[str, list[float]]:
    """What `one_turn` finds there."""
    line = [sys.executable, __file__, "--one-turn", "--steps", str(steps)]
    answer = subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, list[float]] = json.loads(answer)
    return found


def measure(turns: int, steps: int) -> dict[str, Any]:
    """The turns, each in a process of its own, and what else the machine did."""
    load = os.getloadavg()
    parts: dict[str, dict[str, list[float]]] = {
        part: {name: [] for name in LAYERS} for part in ("first", "later")
    }
    with busy_processes(BUSY_PROCESSES):
        for turn in range(turns):
            print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
            for name, taken in in_a_new_process(steps).items():
                parts["first"][name] += taken[1:FIRST]  # the very first step loads or compiles
                parts["later"][name] += taken[FIRST:]
    told = {
        part: {name: told_of(samples) for name, samples in layers.items()}
        for part, layers in parts.items()
    }
    facts = {"busy_processes": BUSY_PROCESSES, "cores": os.cpu_count(), "load_before": load[0]}
    return {**asdict(CASE), **facts, "turns": turns, "steps": steps, "times_ms": told}


def told_of(samples: list[float]) -> dict[str, float]:
    """Milliseconds: median, quartiles and both extremes."""
    return {**summary(samples, 1e3), "lowest": 1e3 * min(samples), "highest": 1e3 * max(samples)}


def render(results: dict[str, Any]) -> str:
    """The record as Markdown."""
    case, facts = results["beside_busy"], results["machine"]
    steps = {"first": f"2 to {FIRST}", "later": f"{FIRST + 1} to {case['steps']}"}
    lines = [
        "| steps of a turn | | median (quartiles) | lowest | highest |",
        "|---|---|---:|---:|---:|",
    ]
    for part, layers in case["times_ms"].items():
        for name, times in layers.items():
            extremes = f"{times['lowest']:.2f} | {times['highest']:.1f}"
            lines.append(f"| {steps[part]} | {name} | {spread(times, 2)} | {extremes} |")
    return "\n\n".join(
        (
            f"{facts['cpu']} ({facts['vectors']}), {case['cores']} cores, torch {facts['torch']}, "
            f"Python {facts['python']}.",
            f"Milliseconds of a training step, {THREADS} threads: **{size(case)}**. "
            f"{counted(case['turns'], 'turn')}, each a new process in which both layers alternate "
            f"step by step. Load of the machine before they began: {case['load_before']:.1f}.",
            "\n".join(lines),
            stamp(facts),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--record", action="store_true", help="write results/beside_busy.json")
    parser.add_argument("--one-turn", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.steps < FIRST + 2:
        parser.error(f"--steps should be {FIRST + 2} or more, got {asked.steps}")
    if asked.one_turn:
        print(json.dumps(one_turn(asked.steps)))
        return
    stamped = {**machine(torch.device("cpu")), "threads": THREADS}
    results = {"machine": stamped, "beside_busy": measure(asked.turns, asked.steps)}
    print(render(results))
    if asked.record:
        write_atomically(RESULTS, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
