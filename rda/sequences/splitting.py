"""Training, validation and test parts of sequences."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rda.sequences.dataset import Counts, Sequences, SequencesError

How = Literal["auto", "stratified", "random", "group", "time"]
Parts = dict[str, Counts]
"""The numbers of the sequences in "train", "validation" and "test"."""
WORDS = ("no", "one", "two", "three")


@dataclass(frozen=True)
class Shares:
    """How much of the sequences validates and tests; 0 for a part that there shall not be."""

    validation: float = 0.15
    test: float = 0.15

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            if not 0 <= getattr(self, name) < 0.9:
                raise SequencesError(
                    f"{name} should be a share from 0 to below 0.9, got {getattr(self, name)}"
                )
        if self.validation + self.test > 0.9:
            raise SequencesError("validation and test should leave a tenth or more to train with")

    @property
    def parts(self) -> list[str]:
        """What is done with the parts that there are."""
        validates, tests = bool(self.validation), bool(self.test)
        return ["train"] + ["validate"] * validates + ["test"] * tests


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
    if count < len(shares.parts):
        hint = "; name a column that tells several apart with --sequence, or forecast this one"
        hint = f"{hint} with --problem forecast" if count == 1 else ""
        raise SequencesError(
            f"{WORDS[len(shares.parts)]} sequences or more can be split to "
            f"{' and '.join(shares.parts)}, got {count}{hint}"
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
    """The first train, the next validate, the last test; at least one in each that there is."""
    count = len(order)
    test = max(round(count * shares.test), 1) if shares.test else 0
    validation = max(round(count * shares.validation), 1) if shares.validation else 0
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
    needed = len(shares.parts)
    if len(groups) < needed:
        raise SequencesError(
            f"a split by group needs {WORDS[needed]} groups or more, got {len(groups)}"
        )
    chosen = _cut(generator.permutation(groups), shares)
    return {name: np.flatnonzero(np.isin(sequences.groups, some)) for name, some in chosen.items()}


def _stratified(sequences: Sequences, shares: Shares, generator: np.random.Generator) -> Parts:
    """Each part gets its share of each class; classes with too few sequences only train."""
    target = sequences.target
    if target is None or not target.classes or target.every_step:
        raise SequencesError("a stratified split needs a label for each sequence")
    needed = len(shares.parts)
    none = np.empty(0, dtype=np.int64)
    pieces: dict[str, list[Counts]] = {"train": [none], "validation": [none], "test": [none]}
    order = np.argsort(target.values, kind="stable")
    order = order[: np.isfinite(target.values).sum()]  # without those that have no label
    for group in np.split(order, np.flatnonzero(np.diff(target.values[order])) + 1):
        members = generator.permutation(group)
        if len(members) < needed:
            pieces["train"].append(members)
            continue
        for name, some in _cut(members, shares).items():
            pieces[name].append(some)
    parts = {name: np.concatenate(some) for name, some in pieces.items()}
    if sum(map(bool, map(len, parts.values()))) < needed:
        raise SequencesError(
            f"no class has {WORDS[needed]} sequences, so none is left to {shares.parts[-1]} with"
        )
    return parts
