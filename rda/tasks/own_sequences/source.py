"""Batches of people's own sequences, padded to the longest, with their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from rda.sequences.dataset import Numbers, Sequences, SequencesError, Target
from rda.sequences.describing import describe
from rda.sequences.forecasting import (
    RUNNING,
    drifts,
    forecast_columns,
    last_known,
    standards_of_changes,
    with_changes,
)
from rda.sequences.preparing import prepared_for, standards
from rda.sequences.problem import Divided, Pieces
from rda.sequences.seen import SEEN, digests_of, digests_of_stretches
from rda.sequences.stored import digest
from rda.sequences.understanding import Understanding
from rda.settings import Recipe
from rda.tasks.registry import TaskError
from rda.tasks.shuffling import Shuffled
from rda.tasks.task import Batch, Part, Source
from rda.wording import printable

if TYPE_CHECKING:
    from rda.tasks.own_sequences import OwnSequences

NO_CLASS = -100
"""A target that does not count: cross_entropy ignores it. Missing numbers are NaN."""


class SequenceSource(Source):
    """Inputs are standardised with the training part's statistics, numbers to be predicted too."""

    def __init__(self, task: OwnSequences, device: torch.device, sequences: Sequences) -> None:
        super().__init__(task, device)
        self.problem = task.problem
        self.sequences = sequences
        self.divided = Divided.of(sequences, task.division())
        self.horizon = task.horizon if task.problem == "forecast" else 1
        self._digest = digest(sequences)
        read = self._as_read(sequences, task)
        self.preparation = prepared_for(_training_steps(read, self.divided))
        self._inputs = torch.from_numpy(self.preparation.apply(read.values)).to(device)
        self._answers_from(sequences, task)
        self._parts = {part: _to(pieces, device) for part, pieces in self.divided.parts.items()}
        self._shuffled = Shuffled(self.divided.count("train"), device)

    def _as_read(self, sequences: Sequences, task: OwnSequences) -> Sequences:
        """With the channels that a forecast is made from."""
        self.drifting: tuple[str, ...] = ()
        self.forecast_names: tuple[str, ...] = ()
        if self.problem != "forecast":
            return sequences
        self.forecast = forecast_columns(sequences, task.target)
        self.forecast_names = tuple(sequences.channels[i].name for i in self.forecast)
        train = _training_steps(sequences, self.divided)
        self.drifting = tuple(
            name
            for i, name in zip(self.forecast, self.forecast_names, strict=True)
            if drifts(train.values[:, i], train.lengths)
        )
        return with_changes(sequences, self.forecast_names, self.drifting)

    def _answers_from(self, sequences: Sequences, task: OwnSequences) -> None:
        """Targets as tensors: (sequences) or (steps), and (steps, columns) for a forecast."""
        target = sequences.target
        self.classes: tuple[str, ...] = ()
        self.mean, self.deviation = np.zeros(1), np.ones(1)
        if self.problem == "forecast":
            levels = sequences.values[:, self.forecast]
            self._answers = torch.from_numpy(np.where(np.isfinite(levels), levels, np.nan))
            lasts = [last_known(column, sequences.lengths) for column in levels.T]
            self.last = np.stack(lasts, 1)
            self._last = torch.from_numpy(self.last).to(self.device)
            train = _training_steps(sequences, self.divided)
            self.mean, self.deviation = standards_of_changes(
                train.values[:, self.forecast], train.lengths, self.horizon
            )
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
            with np.errstate(over="ignore"):  # a training part that hardly varies
                self._answers = torch.from_numpy((numbers - mean) / deviation)
        if not self.classes and self.problem != "forecast":
            self._answers = self._answers.float()
        self._answers = self._answers.to(self.device)
        self._weights = self._class_weights() if task.balanced and self.classes else None
        scales = self.understanding.scales
        unit = np.resize(scales, self.deviation.shape) if scales.size else 1.0
        self._scale = torch.from_numpy(self.deviation / unit).float().to(self.device)

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

    @property
    def metric(self) -> str:
        return self.understanding.metric

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
        """What the next values of each step are above its last one, in their deviations: (time,
        batch, horizon x columns); NaN beyond the end."""
        pieces = []
        for ahead in range(1, self.horizon + 1):
            there = scored & (steps + ahead < limits)
            values = self._answers[(steps + ahead).clamp(max=len(self._answers) - 1)]
            pieces.append((values - self._last[steps]).masked_fill(~there[..., None], torch.nan))
        mean, deviation = (
            torch.from_numpy(each).to(self.device) for each in (self.mean, self.deviation)
        )
        return ((torch.cat(pieces, -1) - mean) / deviation).float()

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

    @property
    def understanding(self) -> Understanding:
        """What a model must know to be used on other data."""
        target = self.sequences.target
        names = self.forecast_names or (target.name if target is not None else "",)
        return Understanding(
            self.problem, self.preparation, names, self.classes,
            tuple(self.mean.tolist()), tuple(self.deviation.tolist()), self.horizon,
            self.drifting, self.sequences.found,
        )  # fmt: skip

    def told(self) -> list[str]:
        """What was understood of the data, in lines."""
        lines = describe(
            self.sequences, self.divided, self.problem, self.preparation, self.forecast_names
        )
        if self.drifting:
            lines.append(
                f"no level that comes back: {', '.join(map(printable, self.drifting))}; read as "
                f"the distance from the mean of the last {RUNNING} steps"
            )
        return lines

    def facts(self) -> dict[str, Any]:
        return {
            "sequences": self.understanding.to_facts(),
            "sha256": self._digest,
            SEEN: self._seen,
        }

    @cached_property
    def _seen(self) -> list[str]:
        """By what the sequences are recognised that trained, or chose the weights."""
        if self.problem == "forecast":
            last = "validation" if self.divided.count("validation") else "train"
            read = _steps_before_the_end(self.sequences, self.divided, last)
            return list(digests_of_stretches(read))
        parts = (self.divided.members[part] for part in ("train", "validation"))
        return [digests_of(self.sequences.chosen(np.concatenate(list(parts))))]

    def position(self) -> dict[str, Tensor]:
        return self._shuffled.position()

    def move_to(self, position: Mapping[str, Tensor]) -> None:
        self._shuffled.move_to(position)


def _training_steps(sequences: Sequences, divided: Divided) -> Sequences:
    """What statistics may be taken from: for a forecast, the steps before those that validate."""
    members = divided.members["train"]
    if members is not divided.members["test"]:
        return sequences.chosen(members)
    return _steps_before_the_end(sequences, divided, "train")


def _steps_before_the_end(sequences: Sequences, divided: Divided, part: str) -> Sequences:
    """The series of a forecast up to where a part ends."""
    members = divided.members[part]
    series = replace(sequences, target=None).chosen(members)
    ends = np.unique(divided.parts[part].limits) - sequences.starts[members]
    used = series.step_numbers < np.repeat(ends, series.lengths)
    return replace(series, values=series.values[used], lengths=ends)


def _check_classes(target: Target, known: Numbers) -> None:
    if not len(known):
        raise SequencesError(f"{target.name} has no answer in the training part")
    if len(np.unique(known)) < 2:
        raise SequencesError(
            f"{target.name} has one class in the training part: there is nothing to tell apart"
        )


def _to(pieces: Pieces, device: torch.device) -> tuple[Tensor, ...]:
    parts = pieces.starts, pieces.lengths, pieces.scored_from, pieces.limits
    return tuple(torch.from_numpy(part).to(device) for part in parts)
