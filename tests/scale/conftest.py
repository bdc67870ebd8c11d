"""The environment in which commands start Ray, and the runs that theirs are compared with."""

import os
import secrets
from pathlib import Path

import forking
import pytest
from tiny_commands import TINY

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def ray_environment():
    """For commands that start Ray: with a token, so that it makes none in the home folder."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'rda-torch[ray]'")
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(24),
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture(scope="session")
def alone(tmp_path_factory):
    """The folder of the two runs, trained one after the other in one process."""
    folder = tmp_path_factory.mktemp("alone")
    code, _, complaints = forking.run(["-m", "rda", *TINY, "--runs-dir", folder])
    assert code == 0, complaints
    return folder
