"""Where a run is trained: versions, hardware, git state, command."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import rda
from rda.training.torchrun import processes


def describe_environment(device: torch.device, command: str | None = None) -> dict[str, Any]:
    """The environment as plain values for the record."""
    return {
        "rda": rda.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": processes(),
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "runs_at_once": _runs_at_once(),
        "git": _git(),
        "command": command or shlex.join(["python", *sys.argv]),
    }


def _runs_at_once() -> int | None:
    """How many runs share the device, where `rda reproduce` has started several."""
    given = os.environ.get("RDA_RUNS_AT_ONCE", "")
    return int(given) if given.isdigit() else None


def processor() -> str:
    """The name of the CPU, as far as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git() -> dict[str, Any] | None:
    """The commit of this code: $RDA_COMMIT for a copy, otherwise the commit of its checkout."""
    named = os.environ.get("RDA_COMMIT")
    if named:
        return {"commit": named, "dirty": None}
    package = Path(rda.__file__).parent
    if not (package.parent / ".git").exists():
        return None
    try:
        commit = _ask_git(package, "rev-parse", "HEAD")
        changed = _ask_git(package, "status", "--porcelain", ".")
        return {"commit": commit, "dirty": bool(changed)}
    except (OSError, subprocess.SubprocessError):
        return None


def _ask_git(folder: Path, *question: str) -> str:
    command = ["git", "-C", str(folder), *question]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return answer.stdout.strip()
