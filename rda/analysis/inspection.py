"""What a trained RDA or RWA looked at while it read one sequence, as plain numbers in a file."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from rda.files import write_atomically
from rda.training.status import RecordError

INSPECTION = "inspection.json"
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
    path = folder / INSPECTION
    write_atomically(path, (json.dumps(asdict(inspection)) + "\n").encode())
    return path


def read(folder: Path) -> Inspection | None:
    """The inspection that was saved with a run, if there is one."""
    path = folder / INSPECTION
    try:
        content = json.loads(path.read_text())
        # Inspections that were saved before there were inputs have none.
        known = {one.name for one in fields(Inspection)} & content.keys()
        return Inspection(**{name: content[name] for name in known})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
