"""Trains many runs, several at a time, each in a process of its own, until a time is over."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from rda.experiments.lines import train_line
from rda.experiments.plan import Planned
from rda.experiments.sharing import Sharing
from rda.training.interrupt import Interrupt
from rda.training.record import status_in
from rda.training.status import Status
from rda.training.thinning import thin

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_TO_SAVE = 60.0
"""A process that was asked to save and stop, and has not after this time, is killed."""


@dataclass
class Working:
    """A run and the process that trains it."""

    run: Planned
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    status: Status | None = None

    def said(self) -> str:
        """The last line that the process printed."""
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"


class Watcher(Protocol):
    """Whoever watches many runs."""

    def looked(self, working: Sequence[Working], waiting: int) -> None:
        """Called several times a second."""

    def ended(self, one: Working, status: Status | None) -> None:
        """Called when the process of a run has ended; `status` is None if it recorded nothing."""


@dataclass
class Schedule:
    """Runs in the order in which they are to be trained."""

    queue: list[Planned]
    folder: Path
    sharing: Sharing
    options: Sequence[str] = ()
    """Further options of `rda train`."""
    deadline: float = float("inf")
    """The time, by `time.monotonic`, at which everything is saved and stopped."""
    thinned: bool = False
    """Whether the records of runs that have ended are thinned."""
    inspect: Callable[[Path], None] = lambda folder: None
    """Called with the folder of a run that has ended, before it is thinned."""
    clock: Callable[[], float] = time.monotonic
    working: list[Working] = field(default_factory=list)

    def work(self, watcher: Watcher) -> str | None:
        """Train until nothing is left; otherwise return why it stopped: a signal or "budget"."""
        with Interrupt() as interrupt:
            try:
                while self.queue or self.working:
                    self._collect(watcher)
                    if interrupt.requested or self.clock() >= self.deadline:
                        self._stop(watcher)
                        return interrupt.requested or "budget"
                    while self.queue and self._has_room_for(self.queue[0]):
                        self._start(self.queue.pop(0))
                    self._look()
                    watcher.looked(self.working, len(self.queue))
                    time.sleep(SECONDS_BETWEEN_LOOKS)
            finally:
                for one in self.working:
                    one.process.kill()
        return None

    def _has_room_for(self, run: Planned) -> bool:
        together = [run, *(one.run for one in self.working)]
        return all(len(together) <= self.sharing.workers_for(one.settings) for one in together)

    def _start(self, run: Planned) -> None:
        line = ["rda", *train_line(run.settings), "--runs-dir", str(self.folder), *self.options]
        environment = {
            **os.environ,
            **self.sharing.environment,
            "RDA_RUNS_AT_ONCE": str(self.sharing.workers_for(run.settings)),
        }
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _collect)
        process = subprocess.Popen(
            [sys.executable, "-m", *line],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on
        )
        self.working.append(Working(run, process, output))

    def _look(self) -> None:
        for one in self.working:
            one.status = status_in(self.folder / one.run.name)

    def _collect(self, watcher: Watcher) -> None:
        for one in [one for one in self.working if one.process.poll() is not None]:
            self.working.remove(one)
            folder = self.folder / one.run.name
            status = status_in(folder)
            if status is not None and status.ended:
                self.inspect(folder)
                if self.thinned:
                    thin(folder)
            watcher.ended(one, status)
            one.output.close()

    def _stop(self, watcher: Watcher) -> None:
        """Everything that is begun is saved, so that the same command goes on from there."""
        self.queue.clear()
        for one in self.working:
            one.process.send_signal(signal.SIGINT)
        give_up = time.monotonic() + SECONDS_TO_SAVE
        while self.working and time.monotonic() < give_up:
            self._collect(watcher)
            time.sleep(SECONDS_BETWEEN_LOOKS)
