"""A task as a user writes one, outside of the package."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Outside:
    """Guess the next number."""

    name = "guess"
    title = "Guessing"
    metric = "accuracy"
    goal = None
    lower_is_better = False
    reference = ""

    numbers: int = 3
