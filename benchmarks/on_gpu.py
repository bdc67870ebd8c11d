"""The comparison on a GPU, in parts that can be run and recorded one by one.

Subjects take turns in one process, so that other work on the machine slows all of them alike. All
times are wall clock times, because at small sizes the user waits for the host. A turn is one
untimed step, then three steps back to back between two synchronisations, divided by three (one step
if it takes longer than 50 ms). Peak memory is that of one training step, minus what was allocated
before the subject's first step, so it includes the buffers that an engine keeps between steps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal

import first_use
import torch
from measuring import (
    Case,
    Contestant,
    Progress,
    allocated,
    forward,
    one_line,
    peak_memory,
    synchronise,
    take_turns,
    train,
)
from subjects import ENGINES, LAYERS, LOOPS, Subject
from torch import nn
from torch.profiler import ProfilerActivity, profile

import rda
from rda.training.building import build_stepper
from rda.training.precision import matmul_precision
from rda.training.settings import RunSettings, full_settings

FEWEST_ROUNDS, MOST_ROUNDS = 5, 100
"""Limits for the rounds of one cell of a grid."""


@dataclass(frozen=True)
class Comparison:
    """The subjects that are compared at one size, by precision."""

    case: Case
    subjects: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Grid:
    """The sizes and precisions at which the training steps of subjects are compared."""

    units: Sequence[int]
    batches: Sequence[int]
    precisions: Sequence[str]
    time: int = 250
    inputs: int = 64
    cell_seconds: float = 0.8
    """Time for all turns of one cell. FEWEST_ROUNDS are run even if they take longer."""


@dataclass(frozen=True)
class Plan:
    """The sizes and counts of a whole measurement."""

    main: Sequence[Comparison]
    large: Sequence[Comparison]
    grid: Grid
    long: Grid
    engines: Sequence[Grid]
    kernels: Sequence[tuple[str, Case]]
    overhead: RunSettings
    overhead_steps: int
    first_use: Sequence[tuple[str, Case]]
    rounds: int = 15
    loop_rounds: int = 3
    """Rounds for the loops in Python, which need about a second per step."""


FEW = ("nn.LSTM", "nn.GRU", "RDA-exp-tanh")
ENGINE_BATCHES = (32, 64, 128, 192, 256, 384, 512, 1024)
WHOLE = Plan(
    main=(
        Comparison(
            Case(250, 100, 1000, 10),
            {"fp32": (*LAYERS, *LOOPS), "tf32": LAYERS, "bf16": LAYERS, "fp16": FEW[:2]},
        ),
        # At multiples of 32 in half precision cuDNN also keeps the LSTM's weights on chip.
        Comparison(
            Case(256, 96, 1000, 128),
            {"fp16": ("nn.LSTM",), "bf16": ("nn.LSTM", "RDA-exp-tanh", "FlashRNN LSTM")},
        ),
    ),
    large=(Comparison(Case(1800, 128, 250, 128), {"fp32": FEW, "tf32": LAYERS, "bf16": LAYERS}),),
    grid=Grid(
        units=(64, 96, 128, 250, 384, 512, 768, 1024, 1800, 2048),
        batches=(1, 8, 32, 100, 256, 512),
        precisions=("fp32", "tf32", "bf16"),
    ),
    # In short sequences small layers wait for the host; long ones show the GPU's own time.
    long=Grid(
        units=(64, 80, 96, 112, 128, 192, 250),
        batches=(1, 8, 32, 64, 128, 256, 512),
        precisions=("fp32", "tf32"),
        time=1000,
        cell_seconds=0.3,
    ),
    # Around the sizes at which another engine becomes the fastest.
    engines=(
        Grid((64, 80, 96, 112, 128), ENGINE_BATCHES, ("fp32", "tf32"), time=1000, cell_seconds=0.3),
        Grid((252, 384, 512), ENGINE_BATCHES, ("fp32", "tf32", "bf16"), cell_seconds=0.3),
        Grid((640, 1024, 1400, 1800, 2048), ENGINE_BATCHES, ("bf16",), cell_seconds=0.3),
    ),
    kernels=(
        ("tf32", Case(250, 100, 1000, 10)),
        ("fp32", Case(250, 100, 1000, 10)),
        ("bf16", Case(1800, 128, 250, 128)),
    ),
    overhead=full_settings("multicopy", "RDA-exp-tanh"),
    overhead_steps=64,
    first_use=(("tf32", Case(250, 100, 100, 10)), ("bf16", Case(1800, 128, 100, 128))),
)
QUICK = replace(
    WHOLE,
    main=(Comparison(Case(250, 100, 200, 10), {"tf32": FEW, "bf16": FEW}),),
    large=(Comparison(Case(1800, 128, 50, 128), {"bf16": FEW}),),
    grid=Grid((128, 250), (1, 100), ("tf32", "bf16"), cell_seconds=0.3),
    overhead_steps=10,
    rounds=5,
)


def measure_main(plan: Plan, device: torch.device) -> dict[str, Any]:
    """All subjects at the paper's size, and the fastest at a size that suits cuDNN."""
    return {"comparisons": [compare(each, plan, device) for each in plan.main]}


def measure_large(plan: Plan, device: torch.device) -> dict[str, Any]:
    """Subjects at the size of the paper's language model."""
    return {"comparisons": [compare(each, plan, device) for each in plan.large]}


def compare(comparison: Comparison, plan: Plan, device: torch.device) -> dict[str, Any]:
    """Times of forward and training steps of all subjects; a subject that cannot run says why."""
    case = comparison.case
    what = f"{case.units} units, batch {case.batch}"
    entries: list[dict[str, Any]] = []
    racing: list[tuple[dict[str, Any], dict[str, Contestant]]] = []
    names = [(p, name) for p, group in comparison.subjects.items() for name in group]
    progress = Progress(len(names) + plan.rounds)
    use_every_library(device)
    for precision, name in names:
        entry: dict[str, Any] = {"name": name, "precision": precision}
        entries.append(entry)
        try:
            subject = Subject(name, precision, case, device)
            entry["engine"] = subject.engine
            before = allocated(device)
            contestants = {
                kind: Contestant(subject.steps(action), device)
                for kind, action in (("forward", forward), ("training", train))
            }
            entry["peak_memory_mb"] = peak_memory(subject.steps(train), device, before)
        except Exception as error:
            entry["error"] = one_line(error)
        else:
            racing.append((entry, contestants))
        progress.step(f"{what}: warming up")
    for number in range(plan.rounds):
        for kind in ("forward", "training"):
            for entry, contestants in racing:
                if number < (plan.loop_rounds if entry["name"] in LOOPS else plan.rounds):
                    contestants[kind].take_turn()
        progress.step(f"{what}: taking turns")
    for entry, contestants in racing:
        entry |= {kind: contestant.result() for kind, contestant in contestants.items()}
    return {**asdict(case), "subjects": entries}


def use_every_library(device: torch.device) -> None:
    """Make torch allocate its matmul workspaces now, so that no subject is charged for them."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        linear = nn.Linear(64, 64, device=device, dtype=dtype)
        linear(torch.ones(64, 64, device=device, dtype=dtype)).sum().backward()


def measure_grid(plan: Plan, device: torch.device) -> dict[str, Any]:
    """A training step of RDA-exp-tanh and of nn.LSTM, over sizes and precisions."""
    return _duels(plan.grid, device)


def measure_long(plan: Plan, device: torch.device) -> dict[str, Any]:
    """The same for small layers over long sequences."""
    return _duels(plan.long, device)


def _duels(grid: Grid, device: torch.device) -> dict[str, Any]:
    cells = list(_cells(grid, device, partial(_duel, ("nn.LSTM", "RDA-exp-tanh"))))
    return {"time": grid.time, "inputs": grid.inputs, "cells": cells}


def measure_engines(plan: Plan, device: torch.device) -> dict[str, Any]:
    """A training step of RDA-exp-tanh on all engines that can run it, over sizes and precisions."""
    cells = [
        {**cell, "time": grid.time}
        for grid in plan.engines
        for cell in _cells(grid, device, _engines_meet)
    ]
    return {"inputs": plan.engines[0].inputs, "cells": cells}


def _engines_meet(precision: str, case: Case, grid: Grid, device: torch.device) -> dict[str, Any]:
    subjects = {name: Subject(f"RDA, engine {name}", precision, case, device) for name in ENGINES}
    able = {name: subject for name, subject in subjects.items() if subject.can_run}
    if not able:
        raise RuntimeError("none of the engines can run this here")
    return {"training": _race(able, grid, device)}


def _cells(
    grid: Grid, device: torch.device, meet: Callable[..., dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    cells = list(product(grid.precisions, grid.units, grid.batches))
    progress = Progress(len(cells))
    for precision, units, batch in cells:
        cell: dict[str, Any] = {"precision": precision, "units": units, "batch": batch}
        try:
            case = Case(units, batch, grid.time, grid.inputs)
            cell["engine"] = Subject("RDA-exp-tanh", precision, case, device).engine
            cell |= meet(precision, case, grid, device)
        except Exception as error:
            cell["error"] = one_line(error)
        yield cell
        progress.step(f"{precision}, {units} units")


def _duel(
    names: tuple[str, str], precision: str, case: Case, grid: Grid, device: torch.device
) -> dict[str, Any]:
    """The times of both subjects, and the ratio of the second to the first."""
    subjects = {name: Subject(name, precision, case, device) for name in names}
    results = _race(subjects, grid, device)
    first, second = (results[name]["median"] for name in names)
    return {"training": results, "ratio": second / first}


def _race(subjects: Mapping[str, Subject], grid: Grid, device: torch.device) -> dict[str, Any]:
    contestants = {
        name: Contestant(subject.steps(train), device) for name, subject in subjects.items()
    }
    a_round = sum(contestant.turn_seconds for contestant in contestants.values())
    rounds = int(grid.cell_seconds / a_round)
    take_turns(contestants.values(), min(max(rounds, FEWEST_ROUNDS), MOST_ROUNDS))
    return {name: contestant.result() for name, contestant in contestants.items()}


MOST_KERNELS = 8


def measure_kernels(plan: Plan, device: torch.device) -> dict[str, Any]:
    """The time of each kernel in a training step of RDA-exp-tanh."""
    steps = []
    for precision, case in plan.kernels:
        subject = Subject("RDA-exp-tanh", precision, case, device)
        run = subject.steps(train)
        run(3)
        kinds = [ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU]
        with profile(activities=kinds) as profiler:
            run(1)
            synchronise(device)
        found = [
            (each.key, each.count, _own_time(each, device)) for each in profiler.key_averages()
        ]
        found.sort(key=lambda each: -each[2])
        steps.append(
            {
                **asdict(case),
                "precision": precision,
                "engine": subject.engine,
                "microseconds": sum(spent for _, _, spent in found),
                "kernels": [
                    {"name": name, "count": count, "microseconds": spent}
                    for name, count, spent in found[:MOST_KERNELS]
                ],
            }
        )
    return {"steps": steps}


def _own_time(event: Any, device: torch.device) -> float:
    on_gpu = device.type == "cuda"
    return float(event.self_device_time_total if on_gpu else event.self_cpu_time_total)


def measure_overhead(plan: Plan, device: torch.device) -> dict[str, Any]:
    """A training step of a task, compared with that of its bare layer, over many steps in a row."""
    progress = Progress(2)
    rows = []
    for precision in ("float32", "tf32"):
        row, case = _overhead_in(precision, plan, device)
        rows.append(row)
        progress.step(f"overhead of a training step, {precision}")
    asked = plan.overhead
    return {"task": asked.task.name, "unit": asked.unit, **asdict(case), "rows": rows}


def _overhead_in(
    precision: Literal["float32", "tf32"], plan: Plan, device: torch.device
) -> tuple[dict[str, Any], Case]:
    recipe = replace(plan.overhead.recipe, precision=precision)
    stepper = build_stepper(replace(plan.overhead, recipe=recipe), device)
    time, batch = stepper.source.batch(stepper.generator, recipe.batch_size).input.shape[:2]
    case = Case(recipe.hidden_size, batch, time, stepper.model.unit.input_size)
    layer = rda.build(plan.overhead.unit, case.inputs, case.units).to(device)
    x = torch.randn(case.time, case.batch, case.inputs, device=device)

    def whole(count: int) -> None:
        for _ in range(count):
            stepper.step()
            if stepper.full:
                stepper.fetch()

    def bare(count: int) -> None:
        for _ in range(count):
            train(layer, x)

    with matmul_precision(precision):
        contestants = [Contestant(run, device, plan.overhead_steps) for run in (whole, bare)]
        take_turns(contestants, FEWEST_ROUNDS)
    one, other = (contestant.result() for contestant in contestants)
    ratio = one["median"] / other["median"]
    return {"precision": precision, "whole": one, "bare": other, "ratio": ratio}, case


def measure_first_use(plan: Plan, device: torch.device) -> dict[str, Any]:
    """The time of the first call, which compiles the engine."""
    return first_use.measure(plan.first_use, device)


PARTS: dict[str, Callable[[Plan, torch.device], dict[str, Any]]] = {
    "main": measure_main,
    "large": measure_large,
    "grid": measure_grid,
    "long": measure_long,
    "engines": measure_engines,
    "kernels": measure_kernels,
    "overhead": measure_overhead,
    "first-use": measure_first_use,
}
QUICK_PARTS = ("main", "large", "grid", "overhead")
