"""The first Ctrl-C or SIGTERM asks to save and stop; a second one stops at once."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SECONDS_BETWEEN = 1.0
"""Signals closer together count as one: a terminal and a wrapper may both pass it on."""


class Interrupt:
    """A context in which `requested` is the name of the signal that asked to stop, or None."""

    _signals = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.requested: str | None = None
        self._requested_at = 0.0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.requested is None:
            self.requested, self._requested_at = signal.Signals(number).name, now
        elif now - self._requested_at > SECONDS_BETWEEN:
            raise KeyboardInterrupt
