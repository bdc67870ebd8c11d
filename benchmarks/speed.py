"""Speed and memory of our units beside torch's, in one run.

    python benchmarks/speed.py                    the whole table on a CPU, some minutes
    python benchmarks/speed.py --device cuda      the same on a GPU
    python benchmarks/speed.py --quick            a first impression: few and small sizes
    python benchmarks/speed.py --record cpu       also write results/cpu.json and README.md

All subjects take turns in one process; the figures are medians with quartiles. A training step is
forward and backward over the whole sequence. on_cpu.py and on_gpu.py say how times are measured.
On a GPU, --only runs some of the parts: main, large, grid, long, engines, kernels, overhead,
first-use. With --record, parts that are not run keep their old record. The recorded commit is
$RDA_COMMIT if it is set, otherwise git's.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import on_cpu
import on_gpu
import torch
from machine import machine
from table import publish, render_results

from rda.files import write_atomically

FOLDER = Path(__file__).parent


def main() -> None:
    asked = parse()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    to = FOLDER / "results" / f"{asked.record}.json" if asked.record else None
    if asked.device == "cpu":
        results = on_cpu.measure(asked.quick, asked.rounds)
        write(to, results)
    else:
        plan = on_gpu.QUICK if asked.quick else on_gpu.WHOLE
        plan = replace(plan, rounds=asked.rounds or plan.rounds)
        results = measure_parts(asked.only, plan, torch.device("cuda", 0), to)
    print(render_results(results))
    if to is not None:
        publish()
        print(f"\nwritten: {to} and {FOLDER / 'README.md'}")


def parse() -> argparse.Namespace:
    """The checked arguments; `only` is the list of parts to run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="few and small sizes")
    parser.add_argument("--only", metavar="PARTS", help="on a GPU, such as main,grid")
    parser.add_argument("--rounds", type=int, help="turns a subject gets (11, GPU: 15, quick: 5)")
    parser.add_argument("--threads", type=int, help="threads for all (torch's default)")
    parser.add_argument("--record", metavar="NAME", help="write results/NAME.json and README.md")
    asked = parser.parse_args()
    if asked.rounds is not None and asked.rounds < 2:
        parser.error("--rounds should be 2 or more: a spread needs that")
    if asked.quick and asked.record:
        parser.error("--quick is for looking: record a whole run")
    if asked.only and asked.device == "cpu":
        parser.error("--only is for a GPU: --device cuda")
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here")
    usual = on_gpu.QUICK_PARTS if asked.quick else tuple(on_gpu.PARTS)
    asked.only = asked.only.split(",") if asked.only else usual
    for part in asked.only:
        if part not in on_gpu.PARTS:
            parser.error(f"no part {part!r}: there are {', '.join(on_gpu.PARTS)}")
    return asked


def measure_parts(
    parts: Iterable[str], plan: on_gpu.Plan, device: torch.device, to: Path | None
) -> dict[str, Any]:
    """Run the parts one after the other, and write each as soon as it is measured."""
    results = recorded_parts(to)
    for part in parts:
        found = on_gpu.PARTS[part](plan, device)
        results["parts"][part] = {"machine": machine(device), **found}
        write(to, results)
    return results


def recorded_parts(to: Path | None) -> dict[str, Any]:
    """The parts in the record file, if there is one."""
    if to is None or not to.exists():
        return {"parts": {}}
    found: dict[str, Any] = json.loads(to.read_text())
    if "parts" not in found:
        sys.exit(f"{to.name} was recorded on a CPU: give the GPU another name")
    return found


def write(to: Path | None, results: dict[str, Any]) -> None:
    """Write the record as JSON, unless there is no file to record to."""
    if to is not None:
        write_atomically(to, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
