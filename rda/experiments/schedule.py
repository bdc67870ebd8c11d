"""Trains many runs, several at a time, each in a process of its own, until a time is over."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol

from rda.experiments.finishing import finish
from rda.experiments.lines import train_line
from rda.experiments.plan import Planned, look
from rda.experiments.sharing import Sharing
from rda.training.interrupt import SECONDS_TO_SAVE, Interrupt
from rda.training.record import status_in
from rda.training.status import EXIT_CODES, INTERRUPTED, RUNNING, Status

SECONDS_BETWEEN_LOOKS = 0.2


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

    def close(self) -> None:
        """Let go of a process that has ended."""
        self.output.close()
        if self.process.stdin is not None:
            self.process.stdin.close()


@dataclass(frozen=True)
class Ended:
    """A run that is not trained any more."""

    run: Planned
    status: Status | None
    """None if nothing is recorded."""
    said: str
    """The last line that its process printed, or what is wrong with the record."""
    failed: bool
    """Whether it counts as a failure. A run that was stopped while it started does not."""


class Watcher(Protocol):
    """Whoever watches many runs."""

    def looked(self, working: Sequence[Working], waiting: Sequence[Planned]) -> None:
        """Called several times a second."""

    def ended(self, one: Ended) -> None:
        """Called when a run is not trained any more, whoever has trained it."""

    def say(self, line: str) -> None:
        """Called with a line to tell the user."""


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
    clock: Callable[[], float] = time.monotonic
    working: list[Working] = field(default_factory=list)
    elsewhere: list[Planned] = field(default_factory=list)
    """Runs that other processes train; what these leave is done here."""

    def work(self, watcher: Watcher) -> str | None:
        """Train until nothing is left; otherwise return why it stopped: a signal or "budget"."""
        with Interrupt() as interrupt:
            try:
                while self.queue or self.working or self.elsewhere:
                    self._collect(watcher)
                    self._take_over(watcher)
                    if interrupt.requested or self.clock() >= self.deadline:
                        self._stop(watcher)
                        return interrupt.requested or "budget"
                    while self.queue and self._has_room_for(self.queue[0]):
                        self._start(self.queue.pop(0))
                    self._look()
                    watcher.looked(self.working, self.queue)
                    time.sleep(SECONDS_BETWEEN_LOOKS)
            finally:
                for one in self.working:
                    one.process.kill()
        return None

    def _has_room_for(self, run: Planned) -> bool:
        together = [run, *(one.run for one in self.working)]
        return all(len(together) <= self.sharing.workers_for(one.settings) for one in together)

    def _start(self, run: Planned) -> None:
        line = [*train_line(run.settings), "--runs-dir", str(self.folder), *self.options]
        environment = {
            **os.environ,
            **self.sharing.environment,
            "RDA_RUNS_AT_ONCE": str(self.sharing.workers_for(run.settings)),
        }
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _collect)
        process = subprocess.Popen(
            [sys.executable, "-m", "rda.worker", *line],
            env=environment,
            stdin=subprocess.PIPE,  # closed by the system where this process is killed
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
            status = status_in(self.folder / one.run.name)
            if status is not None and status.state == RUNNING:  # another process was sooner
                self.wait_for(one.run, watcher)
            else:
                stopped = one.process.returncode == EXIT_CODES[INTERRUPTED]
                self._end(Ended(one.run, status, one.said(), not stopped), watcher)
            one.close()

    def wait_for(self, run: Planned, watcher: Watcher) -> None:
        """Leave a run to the process that trains it until that has ended."""
        self.elsewhere.append(run)
        watcher.say(f"{run.name} is trained by another process")

    def _take_over(self, watcher: Watcher) -> None:
        """Look again at the runs that other processes had."""
        for run in list(self.elsewhere):
            now = look(run.name, run.settings, self.folder / run.name)
            if now.busy:
                continue
            self.elsewhere.remove(run)
            if now.missing:
                self.queue.insert(0, replace(now, expected_steps=run.expected_steps))
            else:
                said = now.problem or (now.status.reason if now.status else "")
                self._end(Ended(now, now.status, said, now.failed), watcher)

    def _end(self, one: Ended, watcher: Watcher) -> None:
        if one.status is not None and one.status.ended:
            reason = finish(self.folder / one.run.name, self.thinned)
            if reason:
                one = replace(one, status=None, said=reason, failed=True)
        watcher.ended(one)

    def _stop(self, watcher: Watcher) -> None:
        """Everything that is begun is saved, so that the same command goes on from there."""
        self.queue.clear()
        self.elsewhere.clear()
        for one in self.working:
            one.process.send_signal(signal.SIGINT)
        give_up = time.monotonic() + SECONDS_TO_SAVE
        while self.working and time.monotonic() < give_up:
            self._collect(watcher)
            time.sleep(SECONDS_BETWEEN_LOOKS)
