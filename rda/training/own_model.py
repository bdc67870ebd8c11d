"""A trained model of people's own sequences, with what was done to its inputs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rda.sequences import Roles, Sequences, read
from rda.sequences.problem import as_asked
from rda.sequences.reading import read_in_parts
from rda.sequences.understanding import Understanding
from rda.training.model import SequenceModel

BATCH = 256
"""Sequences that are predicted side by side."""


class OwnModel(SequenceModel):
    """Reads prepared inputs as any model; `predict` takes data as it was measured."""

    def __init__(
        self, unit: str, hidden_size: int, *, understanding: Understanding, **options: Any
    ) -> None:
        super().__init__(
            unit,
            hidden_size,
            input_size=understanding.preparation.width,
            output_size=understanding.output_size,
            reads_every_step=understanding.every_step,
            **options,
        )
        self.understanding = understanding

    def needed_beside(self) -> dict[str, Any]:
        """How inputs are prepared, and what the answers stand for."""
        told = self.understanding
        return {"sequences": {**told.to_facts(), "inputs": told.preparation.names}}

    def predict(self, data: Any) -> NDArray[Any]:
        """The answers for other data: labels as words, or numbers in their own unit.

        Args:
            data: all that `rda.sequences.read` takes, or `Sequences`.

        Returns:
            (sequences), or (steps) of all sequences one after the other where there is an answer at
            every step. A forecast is (steps, horizon, columns): the values after each step.
        """
        return np.concatenate([self.meaning(raw, some) for some, raw in self.answers(data)])

    def predict_proba(self, data: Any) -> NDArray[np.float64]:
        """(answers, classes): how probable each class is, in the order of
        `understanding.classes`."""
        return np.concatenate([self.probabilities(raw) for _, raw in self.answers(data)])

    def answers(self, data: Any) -> Iterator[tuple[Sequences, NDArray[np.float32]]]:
        """Some sequences at a time with (answers, outputs), as the readout gives them."""
        told = self.understanding
        parts = [data] if isinstance(data, Sequences) else read_in_parts(data, **self._as_trained())
        for part in parts:
            sequences = told.aligned(part)
            for first in range(0, len(sequences), BATCH):
                some = sequences.chosen(np.arange(first, min(first + BATCH, len(sequences))))
                yield some, self._answers(torch.from_numpy(told.inputs(some)), some)

    def read(self, data: Any, with_answers: bool = False) -> Sequences:
        """Data with the columns that the model was trained with; with the answers too, where the
        model is to be compared with them."""
        if isinstance(data, Sequences):
            return data
        return as_asked(read(data, **self._as_trained(with_answers)), self.understanding.problem)

    def _as_trained(self, with_answers: bool = False) -> dict[str, Any]:
        """How data is read to be like that of training."""
        task: Any = None if self.record is None else self.record.settings.task
        channels = tuple(channel.name for channel in self.understanding.channels)
        target = self.understanding.target[0] if with_answers else ""
        if self.understanding.problem == "forecast":
            target = ""
        roles = Roles(target=target, features=channels, found=self.understanding.found)
        if task is not None:
            roles = replace(roles, sequence=task.sequence, time=task.time)
        return {"roles": roles, "encoding": getattr(task, "encoding", "utf-8")}

    def meaning(self, raw: NDArray[np.float32], some: Sequences) -> NDArray[Any]:
        """What outputs of the readout on some sequences say, as `predict` returns it."""
        told = self.understanding
        if told.classes:
            words: NDArray[Any] = np.array(told.classes)[raw.argmax(-1)]
            return words
        numbers = told.numbers(raw, some)
        return numbers if told.problem == "forecast" else numbers[:, 0]

    def probabilities(self, raw: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of each class, from outputs of the readout."""
        if not self.understanding.classes:
            raise TypeError("a model of numbers has no probabilities: predict gives the numbers")
        exponents = np.exp(raw.astype(np.float64) - raw.max(-1, keepdims=True))
        found: NDArray[np.float64] = exponents / exponents.sum(-1, keepdims=True)
        return found

    @torch.no_grad()
    def _answers(self, steps: Tensor, some: Sequences) -> NDArray[Any]:
        weight = self.readout.weight
        lengths = torch.from_numpy(some.lengths)
        padded = steps.new_zeros(int(lengths.max()), len(some), steps.shape[1])
        there = torch.arange(len(padded))[:, None] < lengths
        # In the order of sequences first, which is how the steps stand.
        padded.transpose(0, 1)[there.t()] = steps
        every_step = self.reads_every_step
        ends = None if every_step else lengths.to(weight.device)
        output, _ = self(padded.to(weight), lengths=ends)
        if every_step:
            output = output.transpose(0, 1)[there.t().to(weight.device)]
        if output.dtype != torch.float64:
            output = output.float()
        found: NDArray[Any] = output.cpu().numpy()
        return found
