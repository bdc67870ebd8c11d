"""Sequences of your own: a table, arrays, or a file of the UCR and UEA archives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rda.settings import Limits, Recipe
from rda.tasks.registry import TaskError, register
from rda.tasks.task import Preset, Task

if TYPE_CHECKING:
    import torch

    from rda.sequences import Roles, Sequences
    from rda.tasks.own_sequences.source import SequenceSource

Problem = Literal["auto", "label", "number", "labels", "numbers", "forecast"]


@register
@dataclass(frozen=True)
class OwnSequences(Task):
    """Learn from sequences of your own: label them, predict a number, or forecast them."""

    name = "sequences"
    title = "Own sequences"
    minima: ClassVar = {"horizon": 1, "window": 2}
    added_later = ("recognise",)
    earlier: ClassVar = {"recognise": "names"}

    data: str = ""
    """The sequences: a .csv, .tsv, .parquet, .npz or .ts file, a folder of them, or a pattern. In a
    table a row is a step; a column names the sequence, or each file is one."""
    problem: Problem = "auto"
    """A label or a number for each sequence, labels or numbers for every step, or a forecast of the
    next values; auto forecasts where horizon is more than 1 or there is no target, and looks at the
    target otherwise."""
    target: str = ""
    """The column to be predicted; by default one named target, label, class or y. For a forecast,
    the columns to be forecast, separated by commas; by default the one so named, or all that are
    numbers."""
    sequence: str = ""
    """The column that names the sequence of a row; by default sequence, series, id, ..., or a first
    column of labels that tells the steps of one time apart."""
    time: str = ""
    """The column that orders the steps of a sequence; by default time, step, date, ..., or one that
    holds dates or counts up."""
    group: str = ""
    """A column of sequences that belong together: a group is not split over the parts."""
    features: str = ""
    """The columns that are inputs, separated by commas, and in quotes where a name has a comma; by
    default all that have no other role and are no dates, running numbers or labels in front."""
    ignore: str = ""
    """Columns to be left out, separated by commas."""
    recognise: Literal["values", "names"] = "values"
    """Whether the values of columns that nobody named tell what they are for, or their names alone,
    as in runs of earlier versions."""
    encoding: str = "utf-8"
    """How a table of text is encoded."""
    split: Literal["auto", "stratified", "random", "group", "time"] = "auto"
    """How the sequences are divided: each label in every part, at random, by group, or in the
    order of the data with the last ones for the test."""
    validation: float = 0.15
    """The share of the sequences, or of the time for a forecast, that chooses the weights; 0 for
    none, and the weights of the last step."""
    test: float = 0.15
    """The share that is only tested on; 0 for none."""
    balanced: bool = False
    """Give every class the same weight in the loss, however often it occurs."""
    horizon: int = 1
    """How many steps ahead a forecast goes; more than 1 asks for a forecast."""
    window: int = 200
    """Steps of a series that a forecast is trained on at a time."""

    @property
    def reads_every_step(self) -> bool:  # type: ignore[override]
        """Whether there is an answer at every step instead of the last one only."""
        return self.problem in ("labels", "numbers", "forecast")

    @property
    def metric(self) -> str:  # type: ignore[override]
        """Accuracy of labels; the mean absolute error of numbers, in their own unit. Of several
        columns it is another, which their source knows."""
        return "accuracy" if self.problem in ("auto", "label", "labels") else "error"

    @property
    def chosen_by(self) -> str:
        """The loss: on a few sequences many weights have the same accuracy."""
        return "loss"

    @classmethod
    def full(cls) -> Preset:
        return Preset(cls(), Recipe(hidden_size=64, batch_size=32), Limits(steps=1000))

    @classmethod
    def small(cls) -> Preset:
        recipe = Recipe(hidden_size=16, batch_size=16, learning_rate=0.003, evaluate_every=50)
        return Preset(cls(), recipe, Limits(steps=100))

    def suited(self, given: Mapping[str, Any]) -> Preset | None:
        """The problem as the data shows it; as many steps as the sequences need."""
        from rda.sequences.problem import Divided

        with _as_task_errors():
            task = self.understood()
            divided = Divided.of(self.read(), task.division())
        batch = max(min(given.get("batch_size", 32), divided.count("train")), 1)
        epoch = max(divided.count("train") // batch, 1)
        steps = given.get("steps", min(max(60 * epoch, 600), 5000))
        recipe = Recipe(
            hidden_size=64,
            batch_size=batch,
            learning_rate=0.003,
            schedule="cosine",
            warmup_steps=min(50, steps // 10),
            schedule_steps=max(steps, 1),
            evaluate_every=max(min(2 * epoch, steps // 10), 1) if self.validation else 0,
        )
        return Preset(task, recipe, Limits(steps=max(steps, 1)))

    def understood(self) -> OwnSequences:
        """With the problem that the data shows, where none was asked for, and the column that it
        shows to be forecast."""
        from rda.sequences.problem import problem_of
        from rda.sequences.roles import as_listed

        sequences = self.read()
        problem: Any = problem_of(sequences, "forecast" if self._forecasts else self.problem)
        shown = sequences.found.forecast if problem == "forecast" else ""
        return replace(self, problem=problem, target=self.target or as_listed(shown))

    @property
    def _forecasts(self) -> bool:
        """Whether a forecast is asked for: by its name, or by how far it goes."""
        return self.problem == "forecast" or (self.problem == "auto" and self.horizon > 1)

    def division(self) -> dict[str, Any]:
        """How the sequences are divided into parts, as `Divided.of` takes it."""
        names = ("problem", "split", "validation", "test", "horizon", "window")
        return {name: getattr(self, name) for name in names}

    def read(self) -> Sequences:
        """The sequences, read once as long as the files do not change."""
        from rda.sequences.problem import as_asked
        from rda.sequences.stored import read_once

        if not self.data:
            raise TaskError("sequences needs data: --data FILE, a folder, or a pattern")
        return as_asked(read_once(self.data, self.roles(), self.encoding), self.problem)

    def roles(self) -> Roles:
        """What the columns of a table are for, as far as it was said."""
        from rda.sequences.found import NAMES_ALONE
        from rda.sequences.roles import Roles, listed

        by_values = self.recognise == "values"
        return Roles(
            self.sequence, self.time, "" if self._forecasts else self.target, self.group,
            listed(self.features), listed(self.ignore),
            forecast=listed(self.target) if self._forecasts and by_values else None,
            found=None if by_values else NAMES_ALONE,
        )  # fmt: skip

    def told(self) -> list[str]:
        import torch

        return self.open(torch.device("cpu")).told()

    def open(
        self, device: torch.device, files: Mapping[str, bytes] | None = None
    ) -> SequenceSource:
        from rda.tasks.own_sequences.source import SequenceSource

        with _as_task_errors():
            return SequenceSource(self.understood(), device, self.read())


@contextmanager
def _as_task_errors() -> Iterator[None]:
    """What is wrong with the data, as what is wrong with the task."""
    from rda.sequences import SequencesError

    try:
        yield
    except SequencesError as error:
        raise TaskError(str(error)) from error
    except MemoryError as error:
        raise TaskError("the sequences do not fit into memory") from error
