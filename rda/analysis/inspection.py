"""What a trained RDA or RWA looked at while it read one sequence, as plain numbers in a file."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin

from rda.training.derived import keep, kept
from rda.training.record import INSPECTION
from rda.training.status import RecordError, is_number

STEPS_SHOWN = 120
SEED = 1705
"""Of the sequence that is read."""


@dataclass(frozen=True)
class Inspection:
    """One sequence, step by step. Means and extremes are over the units of the layer."""

    task: str
    unit: str
    symbols: list[str]
    """What was read at each step, as text; empty for numbers."""
    targets: list[int]
    """The right answer at each step, or the only one; empty for a task without classes."""
    answers: list[int]
    """What the model said."""
    discount: list[float]
    """Mean of gamma_t: 1 keeps all of the past, 0 drops it."""
    new_share: list[float]
    """Mean share of the newest step in the average."""
    highest_attention: list[float]
    """The largest log a_t."""
    highest_weight: list[float]
    """The largest log d_t, the weight against which the next step has to be heard."""
    discount_of_units: list[list[float]]
    """gamma_t of some units over the first steps, a list for each unit."""
    new_share_of_units: list[list[float]]
    inputs: dict[str, list[float]] = field(default_factory=dict)
    """Of people's own sequences: some columns as they were measured, by name."""
    final_share: list[float] = field(default_factory=list)
    """Mean share of each step in the average after the last one, from which a model that answers
    once makes its answer."""
    sequence: str = ""
    """The name of the sequence that was read, where it has one."""
    answer: str = ""
    """What the model says of the whole sequence, in words."""

    @property
    def steps(self) -> int:
        """Length of the sequence."""
        return len(self.discount)

    @property
    def accuracy(self) -> float | None:
        """The share of right answers."""
        if not self.targets:
            return None
        right = sum(a == b for a, b in zip(self.targets, self.answers, strict=True))
        return right / len(self.targets)


def save(folder: Path, inspection: Inspection) -> Path:
    """Write the inspection beside the run's record."""
    return keep(folder, INSPECTION, asdict(inspection))


def read(folder: Path) -> Inspection | None:
    """The inspection that was saved with a run, if there is one."""
    found = kept(folder, INSPECTION)
    if found is None:
        return None
    # Inspections that were saved before there were inputs have none.
    known = {one.name: one.type for one in fields(Inspection) if one.name in found.content}
    wrong = [name for name, kind in known.items() if not _fits(found.content[name], kind)]
    if wrong:
        raise RecordError(f"{folder / INSPECTION} cannot be read: {wrong[0]} is something else")
    try:
        inspection = Inspection(**{name: found.content[name] for name in known})
    except TypeError as error:
        raise RecordError(f"{folder / INSPECTION} cannot be read: {error}") from error
    if not _is_whole(inspection):
        raise RecordError(f"{folder / INSPECTION} cannot be read: steps are missing")
    return inspection


def _fits(value: object, kind: Any) -> bool:
    """Whether a value from JSON is what a field holds: text, numbers, lists or a table of them."""
    parts = get_args(kind)
    if isinstance(value, list):
        return get_origin(kind) is list and all(_fits(one, parts[0]) for one in value)
    if isinstance(value, dict):
        return get_origin(kind) is dict and all(_fits(one, parts[1]) for one in value.values())
    return isinstance(value, str) if kind is str else kind in (int, float) and is_number(value)


def _is_whole(found: Inspection) -> bool:
    """Whether there is something of every step."""
    columns = found.new_share, found.highest_attention, found.highest_weight
    return (
        found.steps > 0
        and all(len(column) == found.steps for column in columns)
        and len(found.targets) == len(found.answers)
    )
