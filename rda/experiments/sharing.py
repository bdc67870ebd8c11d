"""Several runs on one GPU at once, through NVIDIA's multi-process service where there is one.

One run of 250 units does not fill a large GPU. Without the service the driver lets one
process at a time have the GPU, so that several gain nothing; with it their kernels run side by
side. `python benchmarks/sharing.py` measures both.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rda.scan.cuda.onchip import SHARED
from rda.training.settings import RunSettings

DAEMON = "nvidia-cuda-mps-control"
KEEPER = 'while read -r line; do :; done; echo quit | "$0"; rm -rf "$1"'
"""Ends the service when its own input ends: with the context, or where this process is killed. The
service itself waits until the runs have let go of the GPU."""
WORKERS = 4
"""Runs at once under the service: more of them did not raise the total on an H200."""
GAIN = 1.5
"""Total steps per second of so many runs, beside one run alone (measured: 1.4 to 1.6)."""
UNITS_THAT_FILL_A_GPU = 1024
"""A run of so many units or more is trained alone: its kernels take the whole GPU in turn."""


@dataclass(frozen=True)
class Sharing:
    """How many runs share a device, and what that gains where a run does not fill it."""

    workers: int
    gain: float
    environment: dict[str, str]
    """For the processes of the runs."""
    note: str

    def workers_for(self, settings: RunSettings) -> int:
        """How many runs may be trained at a time while this one is."""
        return 1 if settings.recipe.hidden_size >= UNITS_THAT_FILL_A_GPU else self.workers

    def gain_for(self, settings: RunSettings) -> float:
        """By how much this run and those beside it are quicker than one after the other."""
        return self.gain if self.workers_for(settings) > 1 else 1.0


@contextmanager
def shared_gpu(workers: int = 0) -> Iterator[Sharing]:
    """Start the service for as long as the context lasts; `workers` 0 is our choice."""
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:  # somebody has started it
        yield _with_service(workers, {})
        return
    if shutil.which(DAEMON) is None:
        yield _without_service(workers, f"there is no {DAEMON}")
        return
    with tempfile.TemporaryDirectory(prefix="rda-mps-", ignore_cleanup_errors=True) as folder:
        names = {"CUDA_MPS_PIPE_DIRECTORY": "pipe", "CUDA_MPS_LOG_DIRECTORY": "log"}
        places = {variable: str(Path(folder, name)) for variable, name in names.items()}
        for place in places.values():
            Path(place).mkdir()
        environment = {**os.environ, **places}
        started = subprocess.run([DAEMON, "-d"], env=environment, capture_output=True, text=True)
        if started.returncode:
            yield _without_service(workers, f"{DAEMON} did not start")
            return
        keeper = subprocess.Popen(
            ["/bin/sh", "-c", KEEPER, DAEMON, folder],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the runs first
        )
        try:
            yield _with_service(workers, places)
        finally:
            keeper.communicate()


def _with_service(workers: int, environment: dict[str, str]) -> Sharing:
    workers = workers or WORKERS
    shared = {SHARED: "1"} if workers > 1 else {}
    return Sharing(
        workers,
        GAIN if workers > 1 else 1.0,
        {**environment, **shared},
        f"{workers} runs at a time share the GPU through NVIDIA's multi-process service",
    )


def _without_service(workers: int, reason: str) -> Sharing:
    if workers <= 1:
        note = f"one run at a time: {reason}, without which sharing gains little"
        return Sharing(1, 1.0, {}, note)
    return Sharing(workers, 1.0, {}, f"{workers} runs at a time, which gains little: {reason}")
