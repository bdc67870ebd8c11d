"""What Ray adds to a run: `rda train` by hand and with --on ray, in turns.

    python benchmarks/on_ray.py               a line
    python benchmarks/on_ray.py --record      also write results/on_ray.json

The time is that of all steps, as the run's own process sees it: Ray's start and the way of a run to
a worker come before it, once.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from gpu_table import stamp
from machine import machine
from measuring import trained

from rda.files import write_atomically

RESULTS = Path(__file__).parent / "results" / "on_ray.json"
BY_HAND, ON_RAY = "rda train", "rda train --on ray"
WAYS = {BY_HAND: [], ON_RAY: ["--on", "ray"]}
RUN = ["train", "multicopy", "RDA-exp-tanh", "--small", "--stop-at", "never", "--device", "cpu"]
RUN += ["--threads", "1", "--checkpoint-minutes", "0.05"]


def measure(turns: int, steps: int) -> dict[str, list[float]]:
    """Seconds of each way in each turn; who begins takes turns too."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(turns):
        print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
        for way in sorted(WAYS, reverse=bool(turn % 2)):
            line = [sys.executable, "-m", "rda", *RUN, "--steps", str(steps), *WAYS[way]]
            seconds[way].append(trained(line).seconds)
    return seconds


def render(results: dict[str, Any]) -> str:
    """The record as Markdown."""
    part = results["on_ray"]
    by_hand, on_ray = (part["seconds"][way] for way in (BY_HAND, ON_RAY))
    ratios = sorted(ray / hand for hand, ray in zip(by_hand, on_ray, strict=True))
    facts = results["machine"]
    return "\n\n".join(
        (
            f"{facts['cpu']} ({facts['vectors']}), torch {facts['torch']}, Python "
            f"{facts['python']}.",
            f"{part['steps']:,} steps of `rda {' '.join(RUN)}`: "
            f"{statistics.median(by_hand):.2f} s by hand and {statistics.median(on_ray):.2f} s "
            f"with `--on ray`, medians of {len(by_hand)} turns. With Ray a turn takes "
            f"**{statistics.median(ratios):.3f} times** as long ({ratios[0]:.3f} to "
            f"{ratios[-1]:.3f}).",
            stamp(facts),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--record", action="store_true", help="write results/on_ray.json")
    asked = parser.parse_args()
    found = {"steps": asked.steps, "seconds": measure(asked.turns, asked.steps)}
    results = {"machine": machine(torch.device("cpu")), "on_ray": found}
    print(render(results))
    if asked.record:
        write_atomically(RESULTS, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
