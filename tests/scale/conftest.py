"""Tiny runs from the command line, and where Ray is missing, the reason."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = 150
TINY = (
    "train addition RDA-exp-tanh --length 6 --hidden-size 8 --batch-size 4 --stop-at never "
    f"--steps {STEPS} --device cpu --seeds 2 --threads 1"
).split()
OFTEN = ["--checkpoint-minutes", "0"]
"""A run that saves after every step is slow enough to be killed on its way."""


@pytest.fixture(scope="session")
def ray_environment(tmp_path_factory):
    """For commands that start Ray: its token and its files stay out of the home folder."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'rda-torch[ray]'")
    return {
        **os.environ,
        "HOME": str(tmp_path_factory.mktemp("home")),
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(24),
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture(scope="session")
def alone(tmp_path_factory):
    """The folder of the two runs, trained one after the other in one process."""
    folder = tmp_path_factory.mktemp("alone")
    done = command([*TINY, "--runs-dir", str(folder)], {**os.environ, "PYTHONPATH": str(ROOT)})
    said, _ = done.communicate(timeout=300)
    assert done.returncode == 0, said
    return folder


def command(line, environment):
    return subprocess.Popen(
        [sys.executable, "-m", "rda", *line], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
