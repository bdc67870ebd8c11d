"""What a run tells whoever watches it."""

from collections.abc import Mapping
from typing import Protocol


class Listener(Protocol):
    """Whoever watches a run."""

    def say(self, line: str) -> None:
        """Hear a line that the user should know."""

    def stepped(self, step: int, row: Mapping[str, float], seconds: float) -> None:
        """Hear that the run is at `step`, after so many seconds of training."""

    def recorded(self, step: int, row: Mapping[str, float]) -> None:
        """Hear one line of the metrics."""


class Quiet:
    """Shows nothing, but passes lines that the user should know on as warnings."""

    def say(self, line: str) -> None:
        import warnings

        warnings.warn(line, stacklevel=2)

    def stepped(self, step: int, row: Mapping[str, float], seconds: float) -> None:
        pass

    def recorded(self, step: int, row: Mapping[str, float]) -> None:
        pass
