"""What every measurement is made of: a size, a step, turns, and their summary."""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

STEPS_A_TURN = 3
LONG_STEP = 0.05
"""Seconds above which a step is timed alone: what the host does beside it is little then."""
SECONDS_OF_SILENCE = 15


@dataclass(frozen=True)
class Case:
    """The size of one comparison."""

    units: int
    batch: int
    time: int
    inputs: int


def forward(model: nn.Module, x: torch.Tensor) -> None:
    """The output, without gradients."""
    with torch.no_grad():
        model(x)


def train(model: nn.Module, x: torch.Tensor) -> None:
    """Forward and backward."""
    output, _ = model(x)
    output.backward(torch.ones_like(output))
    model.zero_grad()


def seconds(action: Callable[..., None], *arguments: object) -> float:
    """How long it takes."""
    started = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - started


def summary(samples: list[float], scale: float) -> dict[str, float]:
    """Median and quartiles, in the unit that `scale` makes."""
    low, middle, high = statistics.quantiles(samples, n=4)
    return {"median": middle * scale, "low": low * scale, "high": high * scale}


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that it was asked."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Contestant:
    """Steps that are warmed up here and then timed in turns, each turn after an untimed step.

    `run` makes so many steps, back to back. The time of a turn is that of the wall clock between
    two synchronisations, divided by the turn's steps.
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
        """What a turn will take, about."""
        return (1 + self.steps) * self.estimate

    def take_turn(self) -> None:
        """One more sample."""
        self.run(1)
        self.samples.append(self._time(self.steps))

    def _time(self, steps: int) -> float:
        synchronise(self.device)
        started = time.perf_counter()
        self.run(steps)
        synchronise(self.device)
        return (time.perf_counter() - started) / steps

    def result(self) -> dict[str, float]:
        """Milliseconds a step, and how they were taken."""
        rounds = {"rounds": len(self.samples), "steps_a_turn": self.steps}
        return {**summary(self.samples, 1e3), **rounds}


def take_turns(contestants: Iterable[Contestant], rounds: int) -> None:
    """So many rounds for all of them."""
    contestants = list(contestants)
    for _ in range(rounds):
        for contestant in contestants:
            contestant.take_turn()


def allocated(device: torch.device) -> int:
    """Bytes of the GPU's memory that tensors hold now."""
    if device.type != "cuda":
        return 0
    gc.collect()
    synchronise(device)
    return torch.cuda.memory_allocated(device)


def peak_memory(run: Callable[[int], None], device: torch.device, before: int) -> float | None:
    """Megabytes at the peak of one step, beyond the bytes `before`; None on a CPU."""
    if device.type != "cuda":
        return None
    gc.collect()
    synchronise(device)
    torch.cuda.reset_peak_memory_stats(device)
    run(1)
    synchronise(device)
    return (torch.cuda.max_memory_allocated(device) - before) / 2**20


def one_line(error: BaseException) -> str:
    """An error as a result: its kind and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0] if said else 'no reason given'}"[:200]


class Progress:
    """One line with an estimate of what is left; a line now and then where that is no terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.started = total, 0, time.perf_counter()
        self.told, self.told_at = "", self.started

    def step(self, text: str) -> None:
        """One of the total is done."""
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
