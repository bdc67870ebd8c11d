"""From values as they were measured to what a unit reads, with statistics of the training part."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rda.sequences.dataset import Channel, Numbers, Sequences, SequencesError
from rda.sequences.memory import require

MOST_CATEGORIES = 100
"""Categories of a channel that are told apart; the others, and unseen ones, are like none."""
OUTLIER = 1e4
"""Standardised values are cut here: one wild cell would otherwise drown all others."""


@dataclass(frozen=True)
class Preparation:
    """What is done to each channel, and to the target."""

    channels: tuple[Channel, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    """Of each channel of numbers over the training part; 0 and 1 for a channel of categories."""
    masked: tuple[bool, ...]
    """Channels with missing values in the training part: a second input says where they are."""

    @property
    def width(self) -> int:
        """How many inputs a unit gets for a step."""
        return len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Of these inputs."""
        found: list[str] = []
        for channel, masked in zip(self.channels, self.masked, strict=True):
            kept = channel.categories[:MOST_CATEGORIES]
            found += [f"{channel.name} = {word}" for word in kept] or [channel.name]
            found += [f"{channel.name} is missing"] if masked else []
        return tuple(found)

    def apply(self, values: Numbers) -> NDArray[np.float32]:
        """(steps, channels) as measured to (steps, inputs): standardised numbers, 0 where
        missing; one input for each category; one more where a channel may be missing."""
        if values.ndim != 2 or values.shape[1] != len(self.channels):
            raise SequencesError(
                f"there should be {len(self.channels)} channels, got shape {values.shape}"
            )
        require(4 * len(values) * self.width, "what a unit reads of the sequences")
        inputs = np.empty((len(values), self.width), dtype=np.float32)
        place = 0
        for i, channel in enumerate(self.channels):
            column = values[:, i]
            known = np.isfinite(column)
            if channel.categories:
                for category in range(min(len(channel.categories), MOST_CATEGORIES)):
                    inputs[:, place] = column == category
                    place += 1
            else:
                with np.errstate(over="ignore"):  # the quotient, which is cut anyway
                    scaled = (column[known] - self.means[i]) / self.deviations[i]
                inputs[~known, place] = 0.0
                inputs[known, place] = np.clip(scaled, -OUTLIER, OUTLIER)
                place += 1
            if self.masked[i]:
                inputs[:, place] = ~known
                place += 1
        return inputs

    def to_facts(self) -> dict[str, Any]:
        """Plain values, to be saved with a model."""
        return {
            "channels": [[channel.name, list(channel.categories)] for channel in self.channels],
            "means": list(self.means),
            "deviations": list(self.deviations),
            "masked": list(self.masked),
        }

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> "Preparation":
        """The inverse of `to_facts`; a ValueError, TypeError or KeyError for anything else."""
        found = Preparation(
            tuple(
                Channel(words_from([name])[0], words_from(rest)) for name, rest in facts["channels"]
            ),
            numbers_from(facts["means"]),
            numbers_from(facts["deviations"]),
            tuple(map(bool, facts["masked"])),
        )
        if {len(found.channels)} != {len(found.means), len(found.deviations), len(found.masked)}:
            raise ValueError("not as many numbers as channels")
        return found


def words_from(given: Any) -> tuple[str, ...]:
    """The words of a list in a file; a ValueError for anything else."""
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise ValueError("not a list of words")
    return tuple(given)


def numbers_from(given: Any) -> tuple[float, ...]:
    """The numbers of a list in a file; a ValueError for anything else."""
    if not isinstance(given, list) or not all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in given
    ):
        raise ValueError("not a list of numbers")
    try:
        return tuple(map(float, given))
    except OverflowError as error:
        raise ValueError("a number is too large") from error


def prepared_for(sequences: Sequences) -> Preparation:
    """From the sequences of the training part."""
    means, deviations, masked = [], [], []
    for i, channel in enumerate(sequences.channels):
        column = sequences.values[:, i]
        known = np.isfinite(column)
        masked.append(not known.all())
        mean, deviation = 0.0, 1.0
        if not channel.categories:
            if not known.any():
                raise SequencesError(
                    f"column {channel.name} has no value in the training part: leave it out "
                    "(of a table, the setting ignore does)"
                )
            mean, deviation = standards(column[known])
        means.append(mean)
        deviations.append(deviation)
    return Preparation(sequences.channels, tuple(means), tuple(deviations), tuple(masked))


def standards(values: Numbers) -> tuple[float, float]:
    """Mean and standard deviation; a deviation of 1 where all values are the same."""
    # A power of two rounds nothing, and squares of what it leaves do not overflow.
    scale = float(2.0 ** (np.frexp(np.abs(values).max(initial=0.0))[1] - 1))
    first = values[0] / scale
    rest = values / scale - first  # exactly 0 where all are the same
    deviation = float(rest.std()) * scale
    return float(first + rest.mean()) * scale, deviation or 1.0
