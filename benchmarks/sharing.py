"""Total steps per second of several runs on one GPU, with and without the multi-process service.

    python benchmarks/sharing.py                 a table
    python benchmarks/sharing.py --record        also write results/sharing.json

Each run trains multicopy at the paper's size in a process of its own, for a few seconds. `rda
reproduce` takes the number of runs from here.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from machine import machine

from rda.experiments.sharing import Sharing, shared_gpu
from rda.files import write_atomically
from rda.training.record import Record, run_folders

RESULTS = Path(__file__).parent / "results" / "sharing.json"
CASES = (("RDA-exp-tanh", "float32"), ("LSTM", "float32"))
COUNTS = (1, 2, 4, 8)


def total_rate(unit: str, precision: str, count: int, seconds: float, sharing: Sharing) -> float:
    """Steps per second of so many runs at once, added up."""
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-m", "rda", "train", "multicopy", unit, "--precision", precision]
        line += ["--stop-at", "never", "--steps", "10000000", "--minutes", str(seconds / 60)]
        line += ["--runs-dir", folder, "--threads", "2"]
        processes = [
            subprocess.Popen(
                [*line, "--seed", str(seed)],
                env={**os.environ, **sharing.environment},
                stdout=subprocess.DEVNULL,
            )
            for seed in range(count)
        ]
        for process in processes:
            process.wait()
        statuses = [Record(found).status for found in run_folders(Path(folder))]
        return sum(status.step / status.seconds for status in statuses)


def measure(seconds: float) -> list[dict[str, Any]]:
    """Every case, first without the service, then with it."""
    entries = []
    alone = Sharing(1, 1.0, {}, "")
    with shared_gpu() as served:
        for unit, precision in CASES:
            for name, sharing in (("time slices", alone), ("multi-process service", served)):
                if name != "time slices" and not served.environment:
                    print(served.note)
                    continue
                rates = {}
                for count in COUNTS:
                    rates[str(count)] = total_rate(unit, precision, count, seconds, sharing)
                    print(f"{unit} {precision}, {name}, {count} runs: {rates[str(count)]:.0f}")
                case = {"unit": unit, "precision": precision, "sharing": name}
                entries.append({**case, "steps_per_second": rates})
    return entries


def table(entries: list[dict[str, Any]]) -> str:
    """Total steps per second beside those of one run."""
    lines = [f"| unit | sharing | {' | '.join(f'{count} runs' for count in COUNTS)} |"]
    lines.append("|---|---|" + "---:|" * len(COUNTS))
    for entry in entries:
        rates = entry["steps_per_second"]
        cells = [f"{rates[str(n)]:.0f} ({rates[str(n)] / rates['1']:.2f} x)" for n in COUNTS]
        unit = f"{entry['unit']} {entry['precision']}"
        lines.append(f"| {unit} | {entry['sharing']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="of training for each case")
    parser.add_argument("--record", action="store_true", help="write results/sharing.json")
    asked = parser.parse_args()
    entries = measure(asked.seconds)
    print(table(entries))
    if asked.record:
        content = {
            "machine": machine(torch.device("cuda")),
            "seconds": asked.seconds,
            "entries": entries,
        }
        write_atomically(RESULTS, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
