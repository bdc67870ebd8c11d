"""Two checkouts of this project beside each other: what a change of an engine costs or gains.

    git worktree add /tmp/before HEAD~1
    python benchmarks/two_trees.py /tmp/before .               this machine's GPU, or else its CPU
    python benchmarks/two_trees.py /tmp/before . --rounds 4    more turns for each tree
    python benchmarks/two_trees.py /tmp/before . --only 1800   the rows that begin so
    python benchmarks/two_trees.py /tmp/before . --only text   whole steps of models of text
    python benchmarks/two_trees.py /tmp/before . --small       small sizes, to try it

Each tree is measured in processes of its own, which take turns. In each process all layers take
turns too, torch's own among them: where those differ between the trees, the machine was not at
rest. The table is printed after every round.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measuring import Case, Contestant, take_turns
from torch import nn

UNITS = ("RDA-exp-tanh", "RDA-sigmoid-id", "RWA", "LSTM", "GRU")
TORCHS = ("nn.LSTM", "nn.GRU")
AUTOCAST = "autocast"
"""The precision of float32 layers under torch.autocast to bfloat16."""
SIZES: dict[str, dict[Case, Sequence[str]]] = {
    "cuda": {
        Case(250, 100, 1000, 10): ("fp32", "tf32", "bf16", AUTOCAST),
        Case(320, 100, 784, 64): ("fp32", "tf32"),
        Case(1800, 128, 250, 64): ("tf32", "bf16", AUTOCAST),
    },
    "cpu": {Case(128, 32, 100, 64): ("fp32",), Case(250, 100, 100, 64): ("fp32",)},
}
SMALL: dict[Case, Sequence[str]] = {Case(16, 4, 10, 3): ("fp32",)}
TEXT = {"cuda": ("bfloat16",), "cpu": ("float32",)}
"""Precisions of the models of text: the paper's size on a GPU, a small twin on a CPU."""
SYMBOLS, CHARACTERS = 205, 20_000_000
TURNS = 9


def layers(case: Case, precision: str, device: torch.device) -> dict[str, Callable[[int], None]]:
    """For each layer a function of a count, which trains so many steps."""
    import rda
    from rda.training.precision import matmul_precision

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    x = torch.randn(case.time, case.batch, case.inputs, device=device).to(dtype)
    products = "float32" if precision == "fp32" else "tf32"
    found: dict[str, Callable[[int], None]] = {}
    for name in (*UNITS, *TORCHS):
        torch.manual_seed(0)
        make = partial(rda.build, name) if name in UNITS else getattr(nn, name[len("nn.") :])
        made = make(case.inputs, case.units).to(device, dtype)

        def run(count: int, layer: nn.Module = made) -> None:
            with matmul_precision(products):
                for _ in range(count):
                    with torch.autocast(device.type, torch.bfloat16, precision == AUTOCAST):
                        output, _ = layer(x)
                    output.backward(torch.ones_like(output))
                    layer.zero_grad()

        found[name] = run
    return found


def models_of_text(
    precision: str, device: torch.device, small: bool
) -> dict[str, Callable[[int], None]]:
    """For each unit a function of a count, which does so many steps of a training run."""
    from text import UNTIMED_STEPS, whole_steps

    from rda.training.building import build_stepper
    from rda.training.settings import full_settings, small_settings, with_changes

    small = small or device.type == "cpu"
    settings = small_settings if small else full_settings
    drawn = torch.randint(SYMBOLS, (CHARACTERS // 20 if small else CHARACTERS,), dtype=torch.uint8)
    files = {"enwik8": drawn.numpy().tobytes()}
    found: dict[str, Callable[[int], None]] = {}
    for unit in UNITS:
        changed = with_changes(settings("wikipedia", unit), {"precision": precision})
        found[unit] = whole_steps(build_stepper(changed, device, files=files))
        found[unit](UNTIMED_STEPS)
    return found


def measure_tree(device: torch.device, small: bool, only: str) -> None:
    """What the process of one tree does: milliseconds of a training step by size and layer."""
    times: dict[str, float] = {}
    for case, precisions in (SMALL if small else SIZES[device.type]).items():
        for precision in precisions:
            row = f"{case.units} x {case.batch} x {case.time} | {precision}"
            if not row.startswith(only):
                continue
            times |= race(row, layers(case, precision, device), device)
    for precision in TEXT[device.type]:
        row = f"text | {precision}"
        if only and row.startswith(only):  # an older tree may not have them
            times |= race(row, models_of_text(precision, device, small), device)
    print(json.dumps(times))


def race(
    row: str, runs: dict[str, Callable[[int], None]], device: torch.device
) -> dict[str, float]:
    """Milliseconds of a step of each."""
    racing = {name: Contestant(run, device) for name, run in runs.items()}
    take_turns(racing.values(), TURNS)
    return {f"{row} | {name}": each.result()["median"] for name, each in racing.items()}


def ask(tree: Path, small: bool, only: str) -> dict[str, float]:
    """Measure a tree in a process of its own."""
    line = [sys.executable, __file__, "--measure", "--only", only]
    line += ["--small"] if small else []
    environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run(line, env=environment, cwd=tree, stdout=subprocess.PIPE, check=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def table(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> str:
    """The quickest turn of each tree: what disturbs a measurement only makes it longer."""
    lines = ["| units x batch x steps | precision | layer | before | after | after / before |"]
    lines += ["|---|---|---|---:|---:|---:|"]
    for key in after[0]:
        old, new = (min(turn[key] for turn in turns) for turns in (before, after))
        lines.append(f"| {key} | {old:.3f} | {new:.3f} | {new / old:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="*", help="the checkout before, and after")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each tree")
    parser.add_argument("--only", default="", help='rows that begin so, such as "1800"')
    parser.add_argument("--small", action="store_true", help="small sizes")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        measure_tree(device, asked.small, asked.only)
        return
    if len(asked.trees) != 2 or not all((tree / "rda").is_dir() for tree in asked.trees):
        parser.error("give two checkouts, each with a folder rda")
    found: list[list[dict[str, float]]] = [[], []]
    for turn in range(asked.rounds):
        for tree, turns in zip(asked.trees, found, strict=True):
            print(f"round {turn + 1} of {asked.rounds}: {tree}", file=sys.stderr, flush=True)
            turns.append(ask(tree.absolute(), asked.small, asked.only))
        print(table(*found), flush=True)


if __name__ == "__main__":
    main()
