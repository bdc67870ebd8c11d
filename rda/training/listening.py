"""What a run tells whoever watches it."""

import warnings
from collections.abc import Mapping
from typing import Protocol


class Listener(Protocol):
    """Whoever watches a run."""

    def say(self, line: str) -> None:
        """Called with a message for the user."""

    def began(self, step: int) -> None:
        """Called before the first step, with the step from which an earlier run goes on, or 0."""

    def stepped(self, step: int, row: Mapping[str, float], seconds: float) -> None:
        """Called after steps, with the last row and the seconds of training so far."""

    def recorded(self, step: int, row: Mapping[str, float]) -> None:
        """Called with each line of the metrics."""

    def sampled(self, step: int, text: str) -> None:
        """Called after an evaluation with what a model of text writes by now."""


class Quiet:
    """Shows nothing, but passes lines that the user should know on as warnings."""

    def say(self, line: str) -> None:
        warnings.warn(line, stacklevel=2)

    def began(self, step: int) -> None:
        pass

    def stepped(self, step: int, row: Mapping[str, float], seconds: float) -> None:
        pass

    def recorded(self, step: int, row: Mapping[str, float]) -> None:
        pass

    def sampled(self, step: int, text: str) -> None:
        pass
