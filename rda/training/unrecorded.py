"""A run that leaves no record: the same training, and nothing on the disk."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from rda.sequences.seen import SEEN
from rda.tasks import Source
from rda.training.building import build_stepper
from rda.training.checkpoint import Checkpoint
from rda.training.listening import Listener, Quiet
from rda.training.loop import run_training
from rda.training.resources import check_precision, enough_memory, find_device
from rda.training.running import read_files
from rda.training.settings import RunSettings
from rda.training.status import Status


@dataclass(frozen=True)
class Trained:
    """What training without a record leaves in memory."""

    status: Status
    rows: list[dict[str, Any]]
    """The lines that the `metrics.jsonl` of a run would have."""
    weights: dict[str, Tensor]
    """Those of the best evaluation, otherwise the last."""
    facts: Mapping[str, Any]
    """What a model of the data needs to be used (`Source.facts`)."""


def train_unrecorded(
    settings: RunSettings,
    *,
    device: str = "auto",
    engine: str = "auto",
    files: Mapping[str, bytes] | None = None,
    listener: Listener | None = None,
) -> Trained:
    """As `rda.training.train`, for many short runs of which only the model is wanted.

    It writes nothing and cannot be continued. Ctrl-C ends it with the status "interrupted".
    """
    where = find_device(device)
    check_precision(settings.unit, settings.recipe.precision, where)
    if files is None:
        files = read_files(settings, progress=False)
    with enough_memory():
        stepper = build_stepper(settings, where, engine, files)
        run = Unrecorded(settings, stepper.source)
        status = run_training(run, stepper, Quiet() if listener is None else listener)
    return Trained(status, run.rows, run.weights, run.facts)


class Unrecorded:
    """Stands in the place of a `Run` and keeps in memory what is of use afterwards."""

    def __init__(self, settings: RunSettings, source: Source) -> None:
        self.settings = settings
        # Without the digests of the data: they grow with it, and serve to look back at a run.
        self.facts = {name: fact for name, fact in source.facts().items() if name != SEEN}
        self.status = Status()
        self.rows: list[dict[str, Any]] = []
        self.weights: dict[str, Tensor] = {}

    def resume(self) -> tuple[Checkpoint | None, Iterator[dict[str, Any]], list[str]]:
        """There is nothing to continue from."""
        return None, iter(()), []

    def damaged(self) -> list[str]:
        """There is no file to be damaged."""
        return []

    def begin(self, entry: Callable[[], dict[str, Any]], status: Status) -> None:
        """Where a run is trained is of no use without a record."""
        self.status = status

    def append(self, row: Mapping[str, Any]) -> None:
        """Keep a row of the metrics."""
        self.rows.append(dict(row))

    def append_timing(self, step: int, seconds: float) -> None:
        """The status has the seconds."""

    def keep_sample(self, step: int, text: str, before: int) -> None:
        """A model that can write can write again."""

    def save(
        self, step: int, tensors: Mapping[str, Any], values: Mapping[str, Any], status: Status
    ) -> None:
        """A checkpoint would have no place to be."""

    def write_status(self, status: Status) -> None:
        """Keep the status."""
        self.status = status

    def end(self, status: Status, weights: Mapping[str, Any], values: Mapping[str, Any]) -> Status:
        """Keep the weights to use and the last status."""
        self.weights = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
        self.status = status
        return status
