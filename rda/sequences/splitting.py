"""Training, validation and test parts of sequences."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rda.sequences.dataset import Counts, Sequences, SequencesError

How = Literal["auto", "stratified", "random", "group", "time"]
Parts = dict[str, Counts]
"""The numbers of the sequences in "train", "validation" and "test"."""


@dataclass(frozen=True)
class Shares:
    """How much of the sequences validates and tests."""

    validation: float = 0.15
    test: float = 0.15

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            if not 0 < getattr(self, name) < 0.9:
                raise SequencesError(
                    f"{name} should be a share between 0 and 0.9, got {getattr(self, name)}"
                )
        if self.validation + self.test > 0.9:
            raise SequencesError("validation and test should leave a tenth or more to train with")


def kind_of_split(sequences: Sequences, how: How) -> How:
    """The way that suits the sequences where none was asked for."""
    if how != "auto":
        return how
    if sequences.groups is not None:
        return "group"
    target = sequences.target
    labelled = target is not None and target.classes and not target.every_step
    return "stratified" if labelled else "random"


def split(sequences: Sequences, how: How, shares: Shares, seed: int = 0) -> Parts:
    """The parts. They depend on the order of the sequences, on their labels and groups, and on
    nothing else: every unit and every seed of a run has the same test part.

    "time" takes the order of the data: its last sequences test, those before validate.
    """
    count = len(sequences)
    if count < 3:
        raise SequencesError(
            f"three sequences or more can be split to train, validate and test, got {count}"
        )
    how = kind_of_split(sequences, how)
    generator = np.random.Generator(np.random.PCG64(seed))
    if how == "time":
        parts = _cut(np.arange(count), shares)
    elif how == "group":
        parts = _by_group(sequences, shares, generator)
    elif how == "stratified":
        parts = _stratified(sequences, shares, generator)
    else:
        parts = _cut(generator.permutation(count), shares)
    return {name: np.sort(chosen).astype(np.int64) for name, chosen in parts.items()}


def _cut(order: Counts, shares: Shares) -> Parts:
    """The first train, the next validate, the last test; at least one in each."""
    count = len(order)
    test = max(round(count * shares.test), 1)
    validation = max(round(count * shares.validation), 1)
    train = max(count - test - validation, 1)
    return {
        "train": order[:train],
        "validation": order[train : train + validation],
        "test": order[train + validation :],
    }


def _by_group(sequences: Sequences, shares: Shares, generator: np.random.Generator) -> Parts:
    if sequences.groups is None:
        raise SequencesError("a split by group needs a column that names the groups: group")
    groups = np.unique(sequences.groups)
    if len(groups) < 3:
        raise SequencesError(f"a split by group needs three groups or more, got {len(groups)}")
    chosen = _cut(generator.permutation(groups), shares)
    return {name: np.flatnonzero(np.isin(sequences.groups, some)) for name, some in chosen.items()}


def _stratified(sequences: Sequences, shares: Shares, generator: np.random.Generator) -> Parts:
    """Each part gets its share of each class; classes of one or two sequences only train."""
    target = sequences.target
    if target is None or not target.classes or target.every_step:
        raise SequencesError("a stratified split needs a label for each sequence")
    pieces: dict[str, list[Counts]] = {"train": [], "validation": [], "test": []}
    for label in np.unique(target.values):
        members = generator.permutation(np.flatnonzero(target.values == label))
        if len(members) < 3:
            pieces["train"].append(members)
            continue
        for name, some in _cut(members, shares).items():
            pieces[name].append(some)
    if not pieces["test"]:
        raise SequencesError("no class has three sequences, so none is left to test with")
    return {name: np.concatenate(some) for name, some in pieces.items()}
