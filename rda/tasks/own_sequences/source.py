"""Batches of people's own sequences, padded to the longest, with their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from rda.sequences.dataset import Numbers, Sequences, SequencesError, Target
from rda.sequences.describing import describe
from rda.sequences.preparing import prepared_for, standards
from rda.sequences.problem import Divided, Pieces
from rda.sequences.stored import digest
from rda.sequences.understanding import Understanding
from rda.settings import Recipe
from rda.tasks.registry import TaskError
from rda.tasks.shuffling import Shuffled
from rda.tasks.task import Batch, Part, Source

if TYPE_CHECKING:
    from rda.tasks.own_sequences import OwnSequences

BLOCK = 10
"""Steps of a series whose forecasts count as one when the spread of errors is estimated."""
NO_CLASS = -100
"""A target that does not count: cross_entropy ignores it. Missing numbers are NaN."""


class SequenceSource(Source):
    """Inputs are standardised with the training part's statistics, numbers to be predicted too."""

    def __init__(self, task: OwnSequences, device: torch.device, sequences: Sequences) -> None:
        super().__init__(task, device)
        self.problem = task.problem
        self.sequences = sequences
        self.divided = Divided.of(sequences, task.division())
        self.preparation = prepared_for(_training_steps(sequences, self.divided))
        self._digest = digest(sequences)
        inputs = self.preparation.apply(sequences.values)
        self._inputs = torch.from_numpy(inputs).to(device)
        self.horizon = task.horizon if task.problem == "forecast" else 1
        self._answers_from(sequences, task)
        self._parts = {part: _to(pieces, device) for part, pieces in self.divided.parts.items()}
        self._shuffled = Shuffled(self.divided.count("train"), device)

    def _answers_from(self, sequences: Sequences, task: OwnSequences) -> None:
        """Targets as tensors: (sequences) or (steps), and (steps, columns) for a forecast."""
        target = sequences.target
        self.classes: tuple[str, ...] = ()
        self.mean, self.deviation = np.zeros(1), np.ones(1)
        if self.problem == "forecast":
            self.forecast = _forecast_columns(sequences, task.target)
            self.mean = np.array([self.preparation.means[i] for i in self.forecast])
            self.deviation = np.array([self.preparation.deviations[i] for i in self.forecast])
            raw = sequences.values[:, self.forecast]
            self._answers = torch.from_numpy((raw - self.mean) / self.deviation)
        elif target is None:
            raise SequencesError("there is no target to learn")
        elif target.classes:
            _check_classes(target, self.training_answers())
            self.classes = target.classes
            labels = np.where(np.isnan(target.values), NO_CLASS, target.values)
            self._answers = torch.from_numpy(labels).long()
        else:
            known = self.training_answers()
            if not len(known):
                raise SequencesError(f"{target.name} has no answer in the training part")
            mean, deviation = standards(known)
            self.mean, self.deviation = np.array([mean]), np.array([deviation])
            numbers = np.where(np.isfinite(target.values), target.values, np.nan)
            self._answers = torch.from_numpy((numbers - mean) / deviation)
        if not self.classes:
            self._answers = self._answers.float()
        self._answers = self._answers.to(self.device)
        self._weights = self._class_weights() if task.balanced and self.classes else None
        self._scale = (
            torch.from_numpy(np.tile(self.deviation, self.horizon)).float().to(self.device)
        )

    def training_answers(self) -> Numbers:
        """Those of the training part that are there."""
        return self._known("train")

    def _known(self, part: str) -> Numbers:
        members, target = self.divided.members[part], self.sequences.target
        assert target is not None
        chosen = self.sequences.steps_of(members) if target.every_step else members
        values = target.values[chosen]
        found: Numbers = values[np.isfinite(values)]
        return found

    def _class_weights(self) -> Tensor:
        counts = np.bincount(self.training_answers().astype(int), minlength=len(self.classes))
        weights = counts.sum() / np.maximum(counts, 1) / max((counts > 0).sum(), 1)
        return torch.from_numpy(weights).float().to(self.device)

    @property
    def input_size(self) -> int:
        return self.preparation.width

    @property
    def output_size(self) -> int:
        return len(self.classes) or len(self._scale)

    @property
    def chance(self) -> float | None:
        """The share of the commonest class of the training part in the test part."""
        if not self.classes:
            return None
        common = np.bincount(self.training_answers().astype(int)).argmax()
        tested = self._known("test")
        return float((tested == common).mean()) if len(tested) else None

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        return self._batch("train", self._shuffled.next(generator, batch_size))

    def evaluation(self, part: Part, batch_size: int) -> Iterator[Batch]:
        order = torch.arange(self.divided.count(part), device=self.device)
        for some in order.split(batch_size) if len(order) else ():
            yield self._batch(part, some)

    def check(self, recipe: Recipe) -> None:
        if recipe.evaluate_every and not self.divided.count("validation"):
            raise TaskError("evaluate_every should be 0 without a part that validates")

    def _batch(self, part: str, chosen: Tensor) -> Batch:
        """Pieces side by side; beyond the end of one its last step is repeated and not scored."""
        starts, lengths, scored_from, limits = (each[chosen] for each in self._parts[part])
        # A recorded step on a GPU has one shape: there every batch is as long as the longest.
        longest = int((lengths if self.device.type == "cpu" else self._parts[part][1]).max())
        t = torch.arange(longest, device=self.device)[:, None]
        steps = starts + torch.minimum(t, lengths - 1)
        inputs = self._inputs[steps]
        if self.problem in ("label", "number"):
            which = torch.from_numpy(self.divided.members[part]).to(self.device)[chosen]
            return Batch(inputs, self._answers[which], lengths)
        scored = (t >= scored_from) & (t < lengths)
        if self.problem == "forecast":
            return Batch(inputs, self._ahead(steps, scored, limits))
        nothing = NO_CLASS if self.classes else torch.nan
        return Batch(inputs, self._answers[steps].masked_fill(~scored, nothing))

    def _ahead(self, steps: Tensor, scored: Tensor, limits: Tensor) -> Tensor:
        """The next values of each step, (time, batch, horizon x columns); NaN beyond the end."""
        pieces = []
        for ahead in range(1, self.horizon + 1):
            there = scored & (steps + ahead < limits)
            values = self._answers[(steps + ahead).clamp(max=len(self._answers) - 1)]
            pieces.append(values.masked_fill(~there[..., None], torch.nan))
        return torch.cat(pieces, -1)

    def losses(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy, or the squared error; those of missing answers are 0, and the others are
        scaled so that the mean over all is the mean over the answers that there are."""
        if self.classes:
            flat = F.cross_entropy(
                prediction.flatten(0, -2), target.flatten(), self._weights,
                ignore_index=NO_CLASS, reduction="none",
            )  # fmt: skip
            found = flat.view(target.shape)
            return found * (target.numel() / self.answers(target).clamp(min=1))
        there = ~target.isnan()
        errors = prediction.view(target.shape) - target.nan_to_num(0.0)
        return errors.square() * there * (target.numel() / self.answers(target).clamp(min=1))

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        count = self.answers(target).clamp(min=1)
        if self.classes:
            return (prediction.argmax(-1) == target).sum() / count
        errors = (prediction.view(target.shape) - target).abs()
        return (
            (errors * self._scale) if target.ndim == 3 else errors * self._scale[0]
        ).nansum() / count

    def answers(self, target: Tensor) -> Tensor:
        """How many answers of a batch there are."""
        return self.is_answer(target).sum()

    def is_answer(self, target: Tensor) -> Tensor:
        """Where a batch has an answer, and not padding or a missing one."""
        return (target != NO_CLASS) if self.classes else ~target.isnan()

    def blocks(self, t: Any, series: Any) -> Any:
        """The number of the stretch of time in which a forecast is made: errors of neighbouring
        steps are alike, and must not be taken for independent ones."""
        return series * (1 << 40) + t // max(self.horizon, BLOCK)

    def units(self, target: Tensor, there: Tensor) -> tuple[Numbers, Numbers]:
        """Deviation and mean of each answer of a batch that is there: its own unit."""
        size = target.shape[-1] if self.problem == "forecast" else 1
        found = []
        for part in (self.deviation, self.mean):
            whole = torch.from_numpy(np.tile(part, self.horizon))
            found.append((whole if size > 1 else whole[:1]).expand(target.shape)[there].numpy())
        return found[0], found[1]

    @property
    def understanding(self) -> Understanding:
        """What a model must know to be used on other data."""
        target = self.sequences.target
        if self.problem == "forecast":
            names = tuple(self.sequences.channels[i].name for i in self.forecast)
        else:
            names = (target.name if target is not None else "",)
        return Understanding(
            self.problem, self.preparation, names, self.classes,
            tuple(self.mean.tolist()), tuple(self.deviation.tolist()), self.horizon,
        )  # fmt: skip

    def told(self) -> list[str]:
        """What was understood of the data, in lines."""
        return describe(self.sequences, self.divided, self.problem, self.preparation)

    def facts(self) -> dict[str, Any]:
        return {"sequences": self.understanding.to_facts(), "sha256": self._digest}

    def position(self) -> dict[str, Tensor]:
        return self._shuffled.position()

    def move_to(self, position: Mapping[str, Tensor]) -> None:
        self._shuffled.move_to(position)


def _training_steps(sequences: Sequences, divided: Divided) -> Sequences:
    """What statistics may be taken from: for a forecast, the steps before those that validate."""
    pieces = divided.parts["train"]
    if divided.members["train"] is not divided.members["test"]:
        return sequences.chosen(divided.members["train"])
    used = np.zeros(len(sequences.values), dtype=bool)
    for start, length in zip(pieces.starts, pieces.lengths, strict=True):
        used[start : start + length] = True
    lengths = np.array([int(used.sum())], dtype=np.int64)
    return Sequences(sequences.values[used], lengths, sequences.channels, ("train",))


def _check_classes(target: Target, known: Numbers) -> None:
    if not len(known):
        raise SequencesError(f"{target.name} has no answer in the training part")
    if len(np.unique(known)) < 2:
        raise SequencesError(
            f"{target.name} has one class in the training part: there is nothing to tell apart"
        )


def _forecast_columns(sequences: Sequences, asked: str) -> list[int]:
    names = [channel.name for channel in sequences.channels]
    wanted = [part.strip() for part in asked.split(",") if part.strip()]
    for name in wanted:
        if name not in names:
            raise SequencesError(f"{name} should be one of {', '.join(names[:20])}")
    found = [
        i
        for i, channel in enumerate(sequences.channels)
        if (channel.name in wanted if wanted else not channel.categories)
    ]
    if not found or any(sequences.channels[i].categories for i in found):
        raise SequencesError("only columns of numbers can be forecast")
    return found


def _to(pieces: Pieces, device: torch.device) -> tuple[Tensor, ...]:
    parts = pieces.starts, pieces.lengths, pieces.scored_from, pieces.limits
    return tuple(torch.from_numpy(part).to(device) for part in parts)
