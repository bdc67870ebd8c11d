"""All that a model of sequences must know of its data to be used on other data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rda.sequences.dataset import Channel, Numbers, Sequences, SequencesError
from rda.sequences.forecasting import change_of, last_known, with_changes
from rda.sequences.found import NAMES_ALONE, Found
from rda.sequences.preparing import Preparation, numbers_from, words_from
from rda.settings import SCALED_ERROR

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
    """Of each target over the training part; answers are in these deviations from the mean. For a
    forecast, of the change since the last value: of each column, for each step ahead."""
    horizon: int = 1
    drifting: tuple[str, ...] = ()
    """The columns of a forecast whose level is read as a distance from a running mean."""
    found: Found = NAMES_ALONE
    """What the columns of the table were for that nobody named."""

    @property
    def every_step(self) -> bool:
        """Whether there is an answer at every step."""
        return self.problem in AT_EVERY_STEP

    @property
    def output_size(self) -> int:
        """Of a prediction: classes, or numbers."""
        return len(self.classes) or len(self.means)

    @property
    def metric(self) -> str:
        """The name of the score."""
        return "accuracy" if self.classes else SCALED_ERROR if self.scales.size else "error"

    @property
    def scales(self) -> Numbers:
        """What an error of each column is divided by where several are forecast, because their
        units may differ: the deviation of its change from one step to the next in the training
        part. Empty where there is one target."""
        several = self.problem == "forecast" and len(self.target) > 1
        return np.array(self.deviations[: len(self.target)] if several else [])

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The columns that the data must have."""
        made = [change_of(name) for name in self.target] if self.problem == "forecast" else []
        return tuple(one for one in self.preparation.channels if one.name not in made)

    def inputs(self, sequences: Sequences) -> NDArray[np.float32]:
        """(steps, inputs): what a unit reads of sequences with these channels."""
        if self.problem == "forecast":
            sequences = with_changes(sequences, self.target, self.drifting)
        return self.preparation.apply(sequences.values)

    def numbers(self, prediction: NDArray[Any], sequences: Sequences) -> Numbers:
        """Predicted numbers in the target's own unit."""
        found: Numbers = prediction.astype(np.float64) * self.deviations + self.means
        if self.problem != "forecast":
            return found
        names = [channel.name for channel in sequences.channels]
        last = [
            last_known(sequences.values[:, names.index(name)], sequences.lengths)
            for name in self.target
        ]
        return found.reshape(len(found), self.horizon, -1) + np.stack(last, 1)[:, None]

    def aligned(self, sequences: Sequences) -> Sequences:
        """Other sequences with the channels in this order and their categories with these numbers.

        A category that was not seen in training is like none: it has no input of its own.
        """
        there = {channel.name: i for i, channel in enumerate(sequences.channels)}
        columns = []
        for channel in self.channels:
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
        return replace(sequences, values=values, channels=self.channels)

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
            "drifting": list(self.drifting),
            **({} if self.found == NAMES_ALONE else {"found": self.found.to_facts()}),
        }

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> "Understanding":
        """The inverse of `to_facts`; a ValueError, TypeError or KeyError for anything else."""
        found = Understanding(
            facts["problem"],
            Preparation.from_facts(facts["preparation"]),
            words_from(facts["target"]),
            words_from(facts["classes"]),
            numbers_from(facts["means"]),
            numbers_from(facts["deviations"]),
            facts["horizon"],
            words_from(facts["drifting"]),
            Found.from_facts(facts.get("found", {})),
        )
        if not found._is_consistent():
            raise ValueError("parts that do not belong together")
        return found

    def _is_consistent(self) -> bool:
        """Whether a file can have been written from this."""
        forecasts = self.problem == "forecast"
        answers = self.horizon * len(self.target) if forecasts else len(self.target)
        known = {channel.name for channel in self.preparation.channels}
        made = {change_of(name) for name in self.target}
        return (
            self.problem in ("label", "number", *AT_EVERY_STEP)
            and type(self.horizon) is int
            and len(self.means) == len(self.deviations)
            and len(self.target) > 0
            and (len(self.classes) > 0 or len(self.means) == answers)
            and (not forecasts or (known >= {*self.target, *made} and not self.classes))
        )


def _recoded(column: Numbers, found: tuple[str, ...], known: tuple[str, ...]) -> Numbers:
    index = {word: float(i) for i, word in enumerate(known)}
    unseen = float(len(known))
    places = np.array([index.get(word, unseen) for word in found] + [np.nan])
    return places[np.where(np.isnan(column), len(found), column).astype(np.int64)]
