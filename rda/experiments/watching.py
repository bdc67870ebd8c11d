"""Many runs in the terminal: a table of those that are trained now, a line for each that ends."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rda.experiments.plan import Planned, SecondsPerStep
from rda.experiments.schedule import Ended, Working
from rda.wording import clock_time

SECONDS_BETWEEN_LINES = 20.0
"""Where the output is not a terminal, a line is printed this often."""


class LiveBoard:
    """A table in a terminal, for as long as the context lasts; elsewhere, lines now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._told_at = self._started = time.monotonic()
        self.failed = 0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def _show(self, title: str, table: Table) -> None:
        # Not the table's own title, which would be wrapped to the width of the table.
        self._live.update(Group(Text(title), table), refresh=True)

    def say(self, line: str) -> None:
        """Print a line above the table."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Board(LiveBoard):
    """Shows what is trained now, what is left, and how long that will take."""

    def __init__(
        self,
        console: Console,
        queue: Sequence[Planned],
        seconds: SecondsPerStep,
        deadline: float,
    ) -> None:
        super().__init__(console)
        self._seconds = {run.name: seconds(run.settings) for run in queue}
        self._waiting = list(queue)
        self._total = len(queue)
        self._deadline = deadline
        self._ended = 0

    def looked(self, working: Sequence[Working], waiting: Sequence[Planned]) -> None:
        """Draw the table, or print a line where that is due."""
        self._waiting = list(waiting)
        now = time.monotonic()
        if self._console.is_terminal:
            self._show(self._progress(working, now), self._table(working))
        elif now - self._told_at >= SECONDS_BETWEEN_LINES:
            self._told_at = now
            steps = ", ".join(f"{one.run.name} {_step(one)}" for one in working)
            self.say(f"{self._progress(working, now)}: {steps or 'waiting for other processes'}")

    def ended(self, one: Ended) -> None:
        """Print how a run has ended."""
        status = one.status
        if status is None or status.state in ("failed", "killed"):
            self.failed += one.failed
            self.say(f"{one.run.name}: {one.said}")
            return
        self._ended += status.ended
        rate = ""
        if status.seconds:
            rate = f" ({status.step} steps, {status.step / status.seconds:.3g} steps/s)"
        self.say(f"{one.run.name}: {status.state}, {status.reason}{rate}")

    def summary(self) -> str:
        """How many runs have ended."""
        spent = clock_time(time.monotonic() - self._started)
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self._ended} of {self._total} runs have ended in {spent}{failed}."

    def _progress(self, working: Sequence[Working], now: float) -> str:
        left = sum(run.steps_left * self._seconds[run.name] for run in self._waiting)
        for one in working:
            done = one.status.step if one.status else 0
            left += max(one.run.expected_steps - done, 1) * self._seconds[one.run.name]
        text = f"{self._ended} of {self._total} runs ended, about {clock_time(left)} left"
        if self._deadline < float("inf"):
            text += f", budget {clock_time(max(self._deadline - now, 0))}"
        return text

    def _table(self, working: Sequence[Working]) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("run", "step", "expected", "steps/s"):
            table.add_column(name, justify="left" if name == "run" else "right")
        for one in working:
            rate = ""
            if one.status is not None and one.status.seconds:
                rate = f"{one.status.step / one.status.seconds:.3g}"
            table.add_row(one.run.name, _step(one), f"{one.run.expected_steps:,}", rate)
        return table


def _step(one: Working) -> str:
    return f"{one.status.step:,}" if one.status else "starting"
