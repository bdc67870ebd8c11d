"""The step at which a run reached its task's goal."""

from collections import deque
from collections.abc import Mapping

from rda.settings import Goal

WINDOW = 100


class GoalTracker:
    """Finds the first batch past the goal, and the first 100 batches whose mean is past it."""

    def __init__(self, goal: Goal | None) -> None:
        self.goal = goal
        self.first: int | None = None
        self.trailing: int | None = None
        self._window: deque[float] = deque(maxlen=WINDOW)

    def update(self, step: int, row: Mapping[str, float]) -> None:
        """Look at one step's row."""
        if self.goal is None or self.trailing is not None:
            return
        value = row[self.goal.column]
        self._window.append(value)
        if self.first is None and self.goal.reached(value):
            self.first = step
        full = len(self._window) == WINDOW
        if full and self.goal.reached(sum(self._window) / WINDOW):
            self.trailing = step

    def reached(self, stop_at: str) -> int | None:
        """The step at which the goal that ends a run was reached, if it was."""
        return {"goal": self.first, "trailing": self.trailing}.get(stop_at)
