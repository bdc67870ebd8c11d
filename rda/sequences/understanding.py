"""All that a model of sequences must know of its data to be used on other data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rda.sequences.dataset import Numbers, Sequences, SequencesError
from rda.sequences.preparing import Preparation

AT_EVERY_STEP = ("labels", "numbers", "forecast")


@dataclass(frozen=True)
class Understanding:
    """The problem, what is done to inputs, and what an answer means."""

    problem: str
    preparation: Preparation
    target: tuple[str, ...]
    """The column that is predicted, or the columns that are forecast."""
    classes: tuple[str, ...]
    """Empty where answers are numbers."""
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    """Of each target over the training part; answers are in these deviations from the mean."""
    horizon: int = 1

    @property
    def every_step(self) -> bool:
        """Whether there is an answer at every step."""
        return self.problem in AT_EVERY_STEP

    @property
    def output_size(self) -> int:
        """Of a prediction: classes, or numbers."""
        return len(self.classes) or len(self.means) * self.horizon

    def numbers(self, prediction: NDArray[Any]) -> Numbers:
        """Predicted numbers in the target's own unit."""
        means, deviations = (np.tile(some, self.horizon) for some in (self.means, self.deviations))
        found: Numbers = prediction.astype(np.float64) * deviations + means
        return found

    def aligned(self, sequences: Sequences) -> Sequences:
        """Other sequences with the channels in this order and their categories with these numbers.

        A category that was not seen in training is like none: it has no input of its own.
        """
        there = {channel.name: i for i, channel in enumerate(sequences.channels)}
        columns = []
        for channel in self.preparation.channels:
            if channel.name not in there:
                raise SequencesError(
                    f"there is no column {channel.name!r}, which the model was trained with"
                )
            i = there[channel.name]
            column, found = sequences.values[:, i], sequences.channels[i].categories
            if bool(found) != bool(channel.categories) and not np.isnan(column).all():
                kinds = ("numbers", "words")
                raise SequencesError(
                    f"column {channel.name!r} holds {kinds[bool(found)]}, and the model was "
                    f"trained with {kinds[bool(channel.categories)]}"
                )
            columns.append(_recoded(column, found, channel.categories) if found else column)
        values = np.stack(columns, 1)
        return replace(sequences, values=values, channels=self.preparation.channels)

    def to_facts(self) -> dict[str, Any]:
        """Plain values, to be saved with a model."""
        return {
            "problem": self.problem,
            "preparation": self.preparation.to_facts(),
            "target": list(self.target),
            "classes": list(self.classes),
            "means": list(self.means),
            "deviations": list(self.deviations),
            "horizon": self.horizon,
        }

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> "Understanding":
        """The inverse of `to_facts`."""
        return Understanding(
            str(facts["problem"]),
            Preparation.from_facts(facts["preparation"]),
            tuple(facts["target"]),
            tuple(facts["classes"]),
            tuple(map(float, facts["means"])),
            tuple(map(float, facts["deviations"])),
            int(facts["horizon"]),
        )


def _recoded(column: Numbers, found: tuple[str, ...], known: tuple[str, ...]) -> Numbers:
    index = {word: float(i) for i, word in enumerate(known)}
    unseen = float(len(known))
    places = np.array([index.get(word, unseen) for word in found] + [np.nan])
    return places[np.where(np.isnan(column), len(found), column).astype(np.int64)]
