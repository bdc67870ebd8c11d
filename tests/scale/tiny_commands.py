"""Tiny runs from the command line."""

import subprocess
import sys
import time

STEPS = 400
TINY = (
    "train addition RDA-exp-tanh --length 6 --hidden-size 8 --batch-size 4 --stop-at never "
    f"--steps {STEPS} --device cpu --seeds 2 --threads 1"
).split()
OFTEN = ["--checkpoint-minutes", "0"]
"""A run that saves after every step is slow enough to be killed on its way."""
SECONDS = 240.0
"""Against hangs only."""


def command(line, environment):
    return subprocess.Popen(
        [sys.executable, "-m", "rda", *line], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def wait_for_steps(folder, process, steps=5):
    """Wait until a run has begun and return its folder."""
    give_up = time.monotonic() + SECONDS
    while time.monotonic() < give_up:
        for metrics in sorted(folder.glob("*/metrics.jsonl")):
            if metrics.read_bytes().count(b"\n") >= steps:
                return metrics.parent
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.02)
    raise AssertionError("no run has begun")
