"""The first Ctrl-C or SIGTERM asks to save and stop; a second one stops at once."""

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SECONDS_BETWEEN = 1.0
"""Signals closer together count as one: a terminal and a wrapper may both pass it on."""
SECONDS_TO_SAVE = 60.0
"""A process that was asked to save and stop, and has not after this time, is killed."""


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


def stop_at_end_of(pipe: int) -> None:
    """Save and stop once nobody holds the other end of `pipe` any more.

    Whoever holds it may be killed: the system closes what a process had open, however it ends.
    """
    threading.Thread(target=_stop_at_end_of, args=(pipe,), daemon=True).start()


def _stop_at_end_of(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    signal.raise_signal(signal.SIGTERM)
    time.sleep(SECONDS_TO_SAVE)
    os._exit(1)
