"""Progress on the terminal: a bar with ETA where there is one, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
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

from rda.commands.arguments import UsageError
from rda.training.record import TENSORBOARD
from rda.training.settings import RunSettings

SECONDS_BETWEEN_LINES = 10.0


class TrainingProgress:
    """Listens to one run after another."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = Console() if console is None else console
        self._can_speak = True
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._events: Any = None

    @contextmanager
    def watching(self, settings: RunSettings, folder: Path, tensorboard: bool) -> Iterator[None]:
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
        self._folder = folder if tensorboard else None
        try:
            self._speak(self._bar.start)
            yield
        finally:
            self._speak(self._bar.stop)
            if self._events is not None:
                self._events.close()
            self._bar = self._events = None

    def _speak(self, action: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Training goes on when nobody listens any more: a closed pipe, a terminal that left."""
        if not self._can_speak:
            return
        try:
            action(*arguments, **options)
        except (OSError, SystemExit):  # rich leaves the program when its pipe is closed
            self._can_speak = False

    def say(self, line: str) -> None:
        """Something a person should know."""
        self._speak(self.console.print, line, markup=False, highlight=False, soft_wrap=True)

    def stepped(self, step: int, row: Mapping[str, float], seconds: float) -> None:
        """Move the bar."""
        if self._first is None:
            self._first = step, seconds
        values = self._values(step, row, seconds)
        if self._bar is not None:
            self._speak(self._bar.update, self._task, completed=step, values=values)
        if not self.console.is_terminal:
            self._say_now_and_then(step, values)

    def recorded(self, step: int, row: Mapping[str, float]) -> None:
        """Pass a line of the metrics on to TensorBoard."""
        if self._folder is None:
            return
        if self._events is None:
            self._events = _event_writer(self._folder, step)
        for name, value in row.items():
            if name != "step":
                self._events.add_scalar(name, value, step)

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

    def _say_now_and_then(self, step: int, values: str) -> None:
        now = time.monotonic()
        if now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.say(f"{self._label}  step {step} of {self._limit}  {values}")


def check_tensorboard() -> None:
    """Raise where the extra is not installed."""
    if find_spec("tensorboard") is None:
        raise UsageError(
            "--tensorboard needs the package tensorboard: pip install 'rda-torch[tensorboard]'"
        )


def _event_writer(folder: Path, first_step: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / TENSORBOARD), purge_step=first_step)


@contextmanager
def fetching(console: Console | None = None) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show downloads for as long as the context lasts; nothing where there is none."""
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
