"""What the first call costs: the engine is compiled in it, and kept for later processes.

Each call is a forward and backward pass in a process of its own, timed after torch has done other
work on the device. Two processes that find the cache empty at once must not disturb each other.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from typing import Any

import torch
from measuring import Case, Progress, seconds, synchronise

import rda


def measure(case: Case, device: torch.device) -> dict[str, Any]:
    """Seconds with an empty cache, with a full one, and of two at once on an empty one."""
    progress = Progress(3)
    with tempfile.TemporaryDirectory() as cache:
        empty = _answer(_start(case, device, cache))
        progress.step("first use, empty cache")
        full = _answer(_start(case, device, cache))
        progress.step("first use, full cache")
    with tempfile.TemporaryDirectory() as cache:
        processes = [_start(case, device, cache) for _ in range(2)]
        together = [_answer(process) for process in processes]
        progress.step("first use, two at once")
    sums = [answer.get("sum", math.nan) for answer in together]
    return {
        **asdict(case),
        "empty_cache": empty,
        "full_cache": full,
        "together": together,
        "agree": all(map(math.isfinite, sums)) and len(set(sums)) == 1,
    }


def _start(case: Case, device: torch.device, cache: str) -> "subprocess.Popen[str]":
    question = json.dumps({"device": device.type, **asdict(case)})
    return subprocess.Popen(
        [sys.executable, __file__, question],
        # NVRTC has a cache of its own.
        env={**os.environ, "RDA_CACHE": cache, "CUDA_CACHE_DISABLE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    said, complaint = process.communicate()
    if process.returncode:
        return {"error": (complaint.strip().splitlines() or ["no reason given"])[-1][:200]}
    found: dict[str, Any] = json.loads(said)
    return found


def answer(question: str) -> None:
    """What each of the processes does."""
    asked = json.loads(question)
    device = torch.device(asked.pop("device"))
    case = Case(**asked)
    torch.manual_seed(0)
    layer = rda.RDA(case.inputs, case.units).to(device)
    x = torch.randn(case.time, case.batch, case.inputs).to(device)
    square = torch.randn(256, 256, device=device, requires_grad=True)
    (square @ square).sum().backward()
    synchronise(device)
    outputs = []

    def first_call() -> None:
        output, _ = layer(x)
        output.sum().backward()
        synchronise(device)
        outputs.append(output)

    spent = seconds(first_call)
    print(json.dumps({"seconds": spent, "sum": outputs[0].double().sum().item()}))


if __name__ == "__main__":
    answer(*sys.argv[1:])
