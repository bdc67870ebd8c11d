"""What a measured time depends on, for the record."""

import os
import platform
import subprocess
import sys
from datetime import date
from importlib import metadata
from pathlib import Path

import torch

import rda
from rda.training.environment import processor

FOLDER = Path(__file__).parent


def machine(device: torch.device) -> dict[str, object]:
    """The hardware, the versions, the commit and the command."""
    return {
        "cpu": processor(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        **(_gpu(device) if device.type == "cuda" else {}),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "rda": rda.__version__,
        "commit": os.environ.get("RDA_COMMIT")
        or _answer("git", "-C", str(FOLDER), "describe", "--always", "--dirty"),
        "date": date.today().isoformat(),
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
    }


def _gpu(device: torch.device) -> dict[str, object]:
    drivers = _answer("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    try:
        triton = metadata.version("triton")
    except metadata.PackageNotFoundError:
        triton = ""
    return {
        "gpu": torch.cuda.get_device_name(device),
        "driver": drivers.partition("\n")[0],
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "triton": triton,
    }


def _answer(*command: str) -> str:
    """The output of a program, or an empty string if it is not installed."""
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""
