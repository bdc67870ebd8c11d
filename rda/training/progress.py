"""Progress in the terminal: a bar with the time left, or a line every few seconds in a log."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from rda.training.settings import RunSettings
from rda.wording import printable

SECONDS_BETWEEN_LINES = 10.0
"""Where the output is not a terminal, a line is printed this often."""


class TrainingProgress:
    """A listener that shows one run after another; a `silent` one shows nothing."""

    def __init__(self, console: Console | None = None, silent: bool = False) -> None:
        self.console = Console() if console is None else console
        self._can_print = not silent
        self._bar: Progress | None = None
        self._task = TaskID(0)

    @contextmanager
    def watching(self, settings: RunSettings) -> Iterator[None]:
        """Show one run for as long as the context lasts."""
        self._label = f"{settings.task.name} {settings.unit}"
        self._limit = settings.limits.steps
        self._last_line = time.monotonic()
        self._first: tuple[int, float] | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._bar.add_task(escape(self._label), total=self._limit, values="")
        try:
            self._print(self._bar.start)
            yield
        finally:
            self._print(self._bar.stop)
            self._bar = None

    def _print(self, action: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Print until nobody reads any more; training goes on after a pipe was closed."""
        if not self._can_print:
            return
        try:
            action(*arguments, **options)
        except (OSError, SystemExit):  # rich leaves the program when its pipe is closed
            self._can_print = False

    def say(self, line: str) -> None:
        """Print a line that the user should know."""
        self._print(self.console.print, line, markup=False, highlight=False, soft_wrap=True)

    def began(self, step: int) -> None:
        """Say where an earlier run goes on."""
        if step:
            self.say(f"{self._label}: goes on after step {step:,}")
            if self._bar is not None:
                self._print(self._bar.update, self._task, completed=step)

    def stepped(self, step: int, row: Mapping[str, float], seconds: float) -> None:
        """Move the bar."""
        if self._first is None:
            self._first = step, seconds
        values = self._values(step, row, seconds)
        if self._bar is not None:
            self._print(self._bar.update, self._task, completed=step, values=values)
        if not self.console.is_terminal:
            self._print_line_when_due(step, values)

    def recorded(self, step: int, row: Mapping[str, float]) -> None:
        """Nothing is shown for a line of the metrics."""

    def sampled(self, step: int, text: str) -> None:
        """Print what a model of text writes, without its control characters."""
        self.say(f"step {step:,} writes: {printable(text)}")

    def _values(self, step: int, row: Mapping[str, float], seconds: float) -> str:
        shown = [f"{name} {value:.4g}" for name, value in row.items()]
        first_step, first_seconds = self._first or (step, seconds)
        if seconds > first_seconds:
            rate = (step - first_step) / (seconds - first_seconds)
            shown.append(f"{rate:.3g} steps/s")
            if not self.console.is_terminal:
                left = int((self._limit - step) / rate) if rate else 0
                shown.append(f"at most {timedelta(seconds=left)} left")
        return "  ".join(shown)

    def _print_line_when_due(self, step: int, values: str) -> None:
        now = time.monotonic()
        if now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.say(f"{self._label}  step {step} of {self._limit}  {values}")


@contextmanager
def fetching(console: Console | None = None) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show downloads for as long as the context lasts; nothing where there are none."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr) if console is None else console,
    )
    tasks: dict[str, TaskID] = {}

    def progress(name: str, done: int, total: int | None) -> None:
        if not tasks:
            bar.start()
        if name not in tasks:
            tasks[name] = bar.add_task(escape(name), total=total)
        bar.update(tasks[name], completed=done, total=total)

    try:
        yield progress
    finally:
        if tasks:
            bar.stop()
