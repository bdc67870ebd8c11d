"""Tiny runs from the command line."""

import subprocess
import sys

STEPS = 200
TINY = (
    "train addition RDA-exp-tanh --length 6 --hidden-size 8 --batch-size 4 --stop-at never "
    f"--steps {STEPS} --device cpu --seeds 2 --threads 1"
).split()
OFTEN = ["--checkpoint-minutes", "0"]
"""A run that saves after every step is slow enough to be killed on its way."""


def command(line, environment):
    return subprocess.Popen(
        [sys.executable, "-m", "rda", *line], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
