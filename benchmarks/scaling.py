"""What a step of one run costs on several processes of this machine, and what that consists of.

    python benchmarks/scaling.py               a table
    python benchmarks/scaling.py --record      also write results/scaling.json

Each process has one thread. One process alone trains batches of several sizes, which gives the time
that a step takes whatever its rows, and the time of a row. Teams of processes (Gloo) then train the
whole batch, and add up as many bytes as its gradients have. Last, `rda train` takes turns with
torchrun and one process.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from machine import machine
from measuring import summary, trained
from scaling_table import render
from torch import distributed as dist

from rda.files import write_atomically
from rda.training.building import build_stepper
from rda.training.following import follow
from rda.training.settings import RunSettings, small_settings
from rda.training.status import FINISHED
from rda.training.stepper import Stepper
from rda.training.team import ALONE, leadership, team
from rda.training.torchrun import is_team

RESULTS = Path(__file__).parent / "results" / "scaling.json"
TASK, UNIT = "multicopy", "RDA-exp-tanh"
UNITS, BATCH = (64, 256, 1024), 32
SHORT: dict[str, Any] = {"copies": 2, "symbols": 3}
"""Sequences so short that reducing is seen beside computing."""
SIZES = (1, 2, 4)
ROWS = (32, 16, 8, 4)
"""Batch sizes of one process alone."""
STEPS_A_TURN = 5
SECONDS_COMPUTING = 0.005
CPU = torch.device("cpu")


def settings(units: int, rows: int) -> RunSettings:
    """A run of this size."""
    small = small_settings(TASK, UNIT)
    recipe = replace(small.recipe, hidden_size=units, batch_size=rows)
    return replace(small, task=replace(small.task, **SHORT), recipe=recipe)


def time_steps() -> int:
    """The length of a sequence."""
    stepper = build_stepper(settings(1, 1), CPU)
    return stepper.source.batch(stepper.generator, 1).input.shape[0]


def take_steps(stepper: Stepper, count: int) -> None:
    """Some steps of a leader, or of a process alone."""
    for _ in range(count):
        stepper.step()
        stepper.fetch()


def times_of_steps(stepper: Stepper, seconds: float) -> list[float]:
    """Seconds a step, of turns that together take about so long."""
    take_steps(stepper, 2)
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 2 or time.perf_counter() < end:
        started = time.perf_counter()
        take_steps(stepper, STEPS_A_TURN)
        found.append((time.perf_counter() - started) / STEPS_A_TURN)
    return found


def times_of_reducing(parameters: int, turns: int) -> list[float]:
    """Seconds that the team takes to add up so many numbers, each time after some computing.

    Without that, processes that wait for nothing else answer at once, as they never do in a step.
    """
    numbers, matrix, found = torch.ones(parameters), torch.rand(256, 256), []
    for _ in range(turns):
        computed = time.perf_counter() + SECONDS_COMPUTING
        while time.perf_counter() < computed:
            matrix @ matrix
        started = time.perf_counter()
        dist.all_reduce(numbers)
        found.append(time.perf_counter() - started)
    return found


def be_a_member(units: list[int], batch: int, rows: list[int], seconds: float) -> None:
    """What a process does that `start` has started; the first of them prints what it found."""
    torch.set_num_threads(1)
    members = team() if is_team() else ALONE
    found: dict[str, Any] = {}
    for size in units:
        for each in (batch,) if members.size > 1 else rows:
            stepper = build_stepper(settings(size, each), CPU, team=members)
            parameters = sum(p.numel() for p in stepper.parameters.values())
            if not members.leads:
                follow(stepper)
            else:
                with leadership(members) as leading:
                    times = times_of_steps(stepper, seconds)
                    leading.ended(FINISHED)
                entry = found.setdefault(str(size), {"parameters": parameters, "steps": {}})
                entry["steps"][str(each)] = times
            if members.size > 1:
                reducing = times_of_reducing(parameters, 40)
                if members.leads:
                    entry["reducing"] = reducing
    if members.leads:
        print(json.dumps(found), flush=True)
    sys.stdout.flush()
    os._exit(0)  # torch's connections may wait for processes that have ended already


def start(size: int, asked: argparse.Namespace) -> dict[str, Any]:
    """What so many processes found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {**os.environ, "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    line = [sys.executable, __file__, "--member", "--seconds", str(asked.seconds)]
    line += ["--batch", str(asked.batch)]
    line += ["--units", *map(str, asked.units), "--rows", *map(str, asked.rows)]
    processes = [
        subprocess.Popen(
            line, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE
        )
        for rank in range(size)
    ]
    said = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"{size} processes could not be measured")
    answer: dict[str, Any] = json.loads(said[0])
    return answer


def measure(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Every number of units; team sizes take turns."""
    found: dict[int, list[dict[str, Any]]] = {size: [] for size in asked.sizes}
    for turn in range(asked.rounds):
        for size in asked.sizes:
            print(f"round {turn + 1} of {asked.rounds}, {size} processes", file=sys.stderr)
            found[size].append(start(size, asked))

    def together(size: int, units: int, *keys: str) -> list[float]:
        samples: list[float] = []
        for answer in found[size]:
            entry: Any = answer[str(units)]
            for key in keys:
                entry = entry[key]
            samples += entry
        return samples

    whole = str(asked.batch)
    return [
        {
            "units": units,
            "batch": asked.batch,
            "parameters": found[1][0][str(units)]["parameters"],
            "alone_ms": {
                str(rows): summary(together(1, units, "steps", str(rows)), 1e3)
                for rows in asked.rows
            },
            "teams": {
                str(size): {
                    "step_ms": summary(together(size, units, "steps", whole), 1e3),
                    "reducing_ms": summary(together(size, units, "reducing"), 1e3),
                }
                for size in asked.sizes
                if size > 1
            },
        }
        for units in asked.units
    ]


def measure_torchrun_alone(turns: int, steps: int) -> dict[str, Any]:
    """Steps a second of `rda train`, by itself and as the only process of torchrun."""
    train = ["train", TASK, UNIT, "--small", "--steps", str(steps), "--stop-at", "never"]
    train += ["--device", "cpu", "--threads", "1"]
    ways = {
        "rda train": [sys.executable, "-m", "rda"],
        "torchrun --nproc-per-node 1 -m rda train": [
            *(sys.executable, "-m", "torch.distributed.run"),
            *("--standalone", "--nproc-per-node", "1", "-m", "rda"),
        ],
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(turns):
        print(f"torchrun with one process, turn {turn + 1} of {turns}", file=sys.stderr)
        for way, program in ways.items():
            status = trained([*program, *train])
            rates[way].append(status.step / status.seconds)
    return {"steps": steps, "turns": turns, "steps_a_second": rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, nargs="+", default=list(UNITS))
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=5, help="starts of each number of processes")
    parser.add_argument("--seconds", type=float, default=1.0, help="of steps for each size")
    parser.add_argument("--turns", type=int, default=5, help="of torchrun with one process")
    parser.add_argument("--steps", type=int, default=300, help="of each of those runs")
    parser.add_argument("--record", action="store_true", help="write results/scaling.json")
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.member and len(set(asked.units)) < 2:
        parser.error(
            "--units should be two sizes or more: the network's speed is a slope over them"
        )
    if asked.member:
        be_a_member(asked.units, asked.batch, asked.rows, asked.seconds)
    torch.set_num_threads(1)
    results = {
        "machine": {**machine(CPU), "cores": os.cpu_count()},
        "task": TASK,
        "time": time_steps(),
        "unit": UNIT,
        "scaling": measure(asked),
        "torchrun_alone": measure_torchrun_alone(asked.turns, asked.steps),
    }
    print(render(results))
    if asked.record:
        write_atomically(RESULTS, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
