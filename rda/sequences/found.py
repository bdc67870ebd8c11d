"""What the values of a table have shown of its columns."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Found:
    """What columns are for that nobody named: kept with a model, and used for other data where the
    columns are there."""

    sequence: str = ""
    time: str = ""
    left_out: tuple[str, ...] = ()
    forecast: str = ""
    """The column that is forecast because its name is one of a target."""
    series_a_row: bool = False
    """Whether each row is a series, its label first."""

    def to_facts(self) -> dict[str, Any]:
        """Plain values, to be saved with a model."""
        return {**asdict(self), "left_out": list(self.left_out)}

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> "Found":
        """The inverse of `to_facts`, and nothing of models of earlier versions; a ValueError or
        TypeError for anything else."""
        found = Found(**{**facts, "left_out": tuple(facts.get("left_out", ()))})
        words = (found.sequence, found.time, found.forecast, *found.left_out)
        if not all(isinstance(word, str) for word in words) or type(found.series_a_row) is not bool:
            raise ValueError("what was found of columns is something else")
        return found


NAMES_ALONE = Found()
"""Nothing is known but names of columns, and their values are not looked at."""
