"""The time of the first call, which compiles the engine and caches it for later processes.

Each call is a forward and backward pass in a process of its own, timed after torch has done other
work on the device. One measurement starts two processes on an empty cache. They wait for each other
before the call, to show that both can compile at once.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import IO, Any

import torch
from measuring import Case, Progress, seconds, synchronise
from subjects import Subject
from torch import Tensor, nn


def measure(uses: Sequence[tuple[str, Case]], device: torch.device) -> dict[str, Any]:
    """For each use: with an empty cache, with a full one, and two processes on an empty one."""
    progress = Progress(3 * len(uses))
    return {"uses": [_measure(precision, case, device, progress) for precision, case in uses]}


def _measure(
    precision: str, case: Case, device: torch.device, progress: Progress
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        (empty,) = _answers(1, precision, case, device, cache)
        progress.step("first use, empty cache")
        (full,) = _answers(1, precision, case, device, cache)
        progress.step("first use, full cache")
    with tempfile.TemporaryDirectory() as cache:
        together = _answers(2, precision, case, device, cache)
        progress.step("first use, two at once")
    sums = [answer.get("sum", math.nan) for answer in together]
    return {
        **asdict(case),
        "precision": precision,
        "empty_cache": empty,
        "full_cache": full,
        "together": together,
        "agree": all(map(math.isfinite, sums)) and len(set(sums)) == 1,
    }


def _answers(
    count: int, precision: str, case: Case, device: torch.device, cache: str
) -> list[dict[str, Any]]:
    """The answers of `count` processes, which all start their call when the last is ready."""
    question = json.dumps({"device": device.type, "precision": precision, **asdict(case)})
    with ExitStack() as stack:
        # Files instead of pipes: a process would stop at a full pipe that nobody reads.
        complaints = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(count)]
        processes = [_start(question, cache, each) for each in complaints]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has failed, and says why
                process.stdin.write("go\n")
                process.stdin.flush()
        return list(map(_answer, processes, complaints))


def _start(question: str, cache: str, complaints: IO[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, __file__, question],
        # Without this NVRTC would use its own cache.
        env={**os.environ, "RDA_CACHE": cache, "CUDA_CACHE_DISABLE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        text=True,
    )


def _answer(process: "subprocess.Popen[str]", complaints: IO[str]) -> dict[str, Any]:
    said, _ = process.communicate()
    if process.returncode:
        complaints.seek(0)
        lines = complaints.read().strip().splitlines()
        return {"error": (lines or ["no reason given"])[-1][:200]}
    found: dict[str, Any] = json.loads(said)
    return found


def answer(question: str) -> None:
    """The work of one of the processes."""
    asked = json.loads(question)
    device = torch.device(asked.pop("device"))
    subject = Subject("RDA-exp-tanh", asked.pop("precision"), Case(**asked), device)
    square = torch.randn(256, 256, device=device, requires_grad=True)
    (square @ square).sum().backward()
    synchronise(device)
    outputs = []

    def first_call(model: nn.Module, x: Tensor) -> None:
        output, _ = model(x)
        output.sum().backward()
        synchronise(device)
        outputs.append(output)

    run = subject.steps(first_call)
    print("ready", flush=True)
    sys.stdin.readline()
    spent = seconds(lambda: run(1))
    total = outputs[0].double().sum().item()
    print(json.dumps({"engine": subject.engine, "seconds": spent, "sum": total}))


if __name__ == "__main__":
    answer(*sys.argv[1:])
