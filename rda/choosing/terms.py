"""On what terms units are compared; needs no torch."""

from dataclasses import dataclass
from typing import Literal

from rda.settings import check_at_least


@dataclass(frozen=True)
class Terms:
    """How units are compared on people's own sequences."""

    seeds: int = 3
    """Runs of each unit with its best learning rate and size."""
    rates: str = "0.001,0.003,0.01"
    """Learning rates that each unit tries, separated by commas; validation chooses."""
    sizes: str = "32,128"
    """Other hidden sizes that each unit tries with its best rate, separated by commas; empty for
    none. With equal parameters they are sizes of the first unit, and the others match them."""
    equal: Literal["parameters", "units"] = "parameters"
    """What all models have equally many of: weights, or hidden units."""

    def __post_init__(self) -> None:
        check_at_least("seeds", self.seeds, 1)
        if not self.learning_rates:
            raise ValueError(f"rates should be numbers separated by commas, got {self.rates!r}")
        if any(size < 1 for size in self.hidden_sizes):
            raise ValueError(f"sizes should be whole numbers from 1, got {self.sizes!r}")

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """The sizes as numbers; 0 for what is none."""
        parts = (part.strip() for part in self.sizes.split(","))
        return tuple(int(part) if part.isdecimal() else 0 for part in parts if part)

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The rates as numbers."""
        try:
            found = tuple(float(part) for part in self.rates.split(",") if part.strip())
        except ValueError:
            return ()
        return found if all(rate > 0 for rate in found) else ()
