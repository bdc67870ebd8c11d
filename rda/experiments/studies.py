"""How well each reading of the paper fits its tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rda.experiments.evidence import Cell, Evidence
from rda.experiments.protocol import STUDIES, Study, Variant


@dataclass(frozen=True)
class Distance:
    """How far numbers are from the published ones, as a factor: the geometric mean over units."""

    factor: float
    beyond: bool
    """It is at least so far: here or there a unit did not reach its goal, so it may need more."""

    def __str__(self) -> str:
        return f"{'> ' if self.beyond else ''}{self.factor:.2f} x"


@dataclass(frozen=True)
class Reading:
    """One variant: its cells beside the published numbers, and those of the chosen settings."""

    task: str
    changes: str
    cells: tuple[Cell, ...]
    chosen: tuple[Cell, ...]

    @property
    def distance(self) -> Distance | None:
        """How far it is from the paper, over the units that have been run. None where all runs of
        a unit died."""
        return _distance([cell for cell in self.cells if cell.outcomes])

    @property
    def chosen_distance(self) -> Distance | None:
        """The same for the chosen settings and the same units."""
        both = zip(self.cells, self.chosen, strict=True)
        return _distance([chosen for cell, chosen in both if cell.outcomes])


def readings(evidence: Evidence, study: Study) -> list[Reading]:
    """Every variant of a study with what its runs show."""
    return [_reading(evidence, study, variant) for variant in study.variants]


def all_readings(evidence: Evidence) -> list[tuple[Study, list[Reading]]]:
    """Every study."""
    return [(study, readings(evidence, study)) for study in STUDIES]


def _reading(evidence: Evidence, study: Study, variant: Variant) -> Reading:
    cells = tuple(evidence.variant(study, variant, unit) for unit in variant.units)
    chosen = tuple(evidence.cell(variant.task, unit) for unit in variant.units)
    return Reading(variant.task, variant.label, cells, chosen)


def _distance(cells: Sequence[Cell]) -> Distance | None:
    """Cells where either side did not reach the goal count with the limit of steps."""
    logs, beyond = [], False
    for cell in cells:
        if cell.median is None or cell.published is None:
            return None
        unreached = math.isinf(cell.median)
        ours = cell.limit if unreached else cell.median
        logs.append(abs(math.log(ours / cell.published.value)))
        beyond |= unreached != cell.published.beyond
    return Distance(math.exp(sum(logs) / len(logs)), beyond) if logs else None
