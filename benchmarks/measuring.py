"""The parts of every measurement: a size, a step, turns of steps, a summary of their times."""

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from rda.training.record import Record
from rda.training.status import Status

STEPS_A_TURN = 3
LONG_STEP = 0.05
"""A step longer than this many seconds is timed alone: the host's share of it is small."""
SECONDS_OF_SILENCE = 15
"""Without a terminal, the progress is printed this often."""


@dataclass(frozen=True)
class Case:
    """The sizes of one comparison: units, batch size, steps and input features."""

    units: int
    batch: int
    time: int
    inputs: int


def forward(model: nn.Module, x: torch.Tensor) -> None:
    """A forward pass without gradients."""
    with torch.no_grad():
        model(x)


def train(model: nn.Module, x: torch.Tensor) -> None:
    """A forward and a backward pass."""
    output, _ = model(x)
    output.backward(torch.ones_like(output))
    model.zero_grad()


def seconds(action: Callable[..., None], *arguments: object) -> float:
    """The seconds that the action takes."""
    started = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - started


def summary(samples: list[float], scale: float) -> dict[str, float]:
    """Median and quartiles of the samples, multiplied by `scale`."""
    low, middle, high = statistics.quantiles(samples, n=4)
    return {"median": middle * scale, "low": low * scale, "high": high * scale}


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Contestant:
    """One subject: warmed up when it is made, then timed in turns.

    `run(count)` does `count` steps back to back. A turn is one untimed step and then `steps` timed
    ones. Its time is the wall clock between two synchronisations, divided by the steps.
    """

    def __init__(
        self, run: Callable[[int], None], device: torch.device, steps: int | None = None
    ) -> None:
        self.run, self.device = run, device
        self.samples: list[float] = []
        run(2)
        self.estimate = self._time(1)
        self.steps = steps or (STEPS_A_TURN if self.estimate < LONG_STEP else 1)

    @property
    def turn_seconds(self) -> float:
        """The expected duration of a turn."""
        return (1 + self.steps) * self.estimate

    def take_turn(self) -> None:
        """Measure one more sample."""
        self.run(1)
        self.samples.append(self._time(self.steps))

    def _time(self, steps: int) -> float:
        synchronise(self.device)
        started = time.perf_counter()
        self.run(steps)
        synchronise(self.device)
        return (time.perf_counter() - started) / steps

    def result(self) -> dict[str, float]:
        """Milliseconds per step, with the number of rounds and of steps in a turn."""
        rounds = {"rounds": len(self.samples), "steps_a_turn": self.steps}
        return {**summary(self.samples, 1e3), **rounds}


def take_turns(contestants: Iterable[Contestant], rounds: int) -> None:
    """Give every contestant one turn in each round."""
    contestants = list(contestants)
    for _ in range(rounds):
        for contestant in contestants:
            contestant.take_turn()


def trained(line: list[str]) -> Status:
    """How the run ended that this command trains, with one thread and in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*line, "--runs-dir", folder, "--name", "run"],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=True,
            capture_output=True,
        )
        return Record(Path(folder, "run")).status


def allocated(device: torch.device) -> int:
    """Bytes of GPU memory that tensors hold now; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    gc.collect()
    synchronise(device)
    return torch.cuda.memory_allocated(device)


def peak_memory(run: Callable[[int], None], device: torch.device, before: int) -> float | None:
    """Peak megabytes of one step, minus the bytes in `before`; None on a CPU."""
    if device.type != "cuda":
        return None
    gc.collect()
    synchronise(device)
    torch.cuda.reset_peak_memory_stats(device)
    run(1)
    synchronise(device)
    return (torch.cuda.max_memory_allocated(device) - before) / 2**20


def one_line(error: BaseException) -> str:
    """The type of an error and the first line of its message, to record as a result."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0] if said else 'no reason given'}"[:200]


class Progress:
    """A line with the estimated time left; without a terminal, a new line now and then."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.started = total, 0, time.perf_counter()
        self.told, self.told_at = "", self.started

    def step(self, text: str) -> None:
        """Count one more of the total as done."""
        self.done += 1
        now = time.perf_counter()
        left = (now - self.started) / self.done * (self.total - self.done)
        line = f"[{self.done}/{self.total}] about {left:.0f} s left  {text}"
        if sys.stderr.isatty():
            end = "\n" if self.done == self.total else ""
            print(f"\r{line:<78}", end=end, file=sys.stderr, flush=True)
        elif text != self.told or now - self.told_at > SECONDS_OF_SILENCE:
            self.told, self.told_at = text, now
            print(line, file=sys.stderr, flush=True)
