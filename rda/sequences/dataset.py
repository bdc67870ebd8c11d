"""Sequences of unequal length in one array, with what is to be learned from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rda.wording import printable

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_CLASSES = 100
"""Whole numbers with at most so many values, each seen twice or more, are taken for labels."""
MOST_CHANNELS = 10_000
"""More columns than this are a mistake more often than they are data."""


class SequencesError(ValueError):
    """Sequences that cannot be used; the message is one line that says why and what would help."""

    def __init__(self, message: str) -> None:
        # Names of columns and cells come from files: a terminal must not obey what they hold.
        super().__init__(printable(message))


@dataclass(frozen=True)
class Channel:
    """What is known of one value of a step."""

    name: str
    categories: tuple[str, ...] = ()
    """The values are indices into these; empty for a channel of numbers."""


@dataclass(frozen=True)
class Target:
    """What is to be learned: a label or a number for each sequence, or for each step."""

    name: str
    values: Numbers
    """(sequences) or (steps): numbers, or indices into `classes`; NaN where missing."""
    classes: tuple[str, ...] = ()
    """Empty where the target is a number."""
    every_step: bool = False


@dataclass(frozen=True)
class Sequences:
    """Sequences one after the other."""

    values: Numbers
    """(steps, channels); NaN where missing."""
    lengths: Counts
    """(sequences), each at least 1."""
    channels: tuple[Channel, ...]
    ids: tuple[str, ...]
    target: Target | None = None
    groups: Counts | None = None
    """(sequences): those of one group stay in one part of a split."""
    notes: tuple[str, ...] = ()
    """What was found in the data and how it was dealt with, in sentences."""

    def __post_init__(self) -> None:
        if not len(self.lengths):
            raise SequencesError("there is no sequence in the data")
        if not self.channels:
            raise SequencesError("no column is left as an input: every one has another role")
        if len(self.channels) > MOST_CHANNELS:
            raise SequencesError(
                f"there are {len(self.channels):,} columns, and at most {MOST_CHANNELS:,} can be "
                "inputs: name some of them with features"
            )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Counts:
        """(sequences): the first step of each."""
        return np.concatenate(([0], np.cumsum(self.lengths)[:-1])).astype(np.int64)

    def steps_of(self, chosen: Counts) -> Counts:
        """The steps of some sequences, in their order."""
        starts, lengths = self.starts[chosen], self.lengths[chosen]
        before = np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(starts, lengths) + np.arange(lengths.sum()) - before

    def chosen(self, chosen: Counts) -> "Sequences":
        """Some of the sequences, in the order that is asked for."""
        steps = self.steps_of(chosen)
        target = self.target
        if target is not None:
            target = replace(target, values=target.values[steps if target.every_step else chosen])
        return replace(
            self,
            values=self.values[steps],
            lengths=self.lengths[chosen],
            ids=tuple(self.ids[i] for i in chosen),
            target=target,
            groups=None if self.groups is None else self.groups[chosen],
        )


def from_arrays(
    sequences: Any,
    target: Any = None,
    *,
    lengths: Any = None,
    groups: Any = None,
    ids: Sequence[str] = (),
    channels: Sequence[str] = (),
    target_name: str = "target",
) -> Sequences:
    """Sequences from arrays.

    Args:
        sequences: a list of arrays (time, channels), or (time) for one channel; or one array
            (sequences, time, channels) or (sequences, time), padded where `lengths` says so.
        target: one for each sequence, or a list of one for each step, or as a padded array.
        lengths: (sequences), how many steps of a padded array are real.
        groups: (sequences), those of one group stay in one part of a split.
        ids: names of the sequences; otherwise their numbers.
        channels: names of the channels; otherwise their numbers.
        target_name: what the target is called.
    """
    pieces = _pieces(sequences, lengths, "sequences")
    sizes = {piece.shape[1] for piece in pieces}
    if len(sizes) > 1:
        raise SequencesError(f"sequences should have equally many channels, got {sorted(sizes)}")
    count = np.array([len(piece) for piece in pieces], dtype=np.int64)
    if not all(count):
        raise SequencesError(f"sequence {int(np.argmin(count))} has no step")
    width = sizes.pop() if sizes else 0
    names = tuple(channels) or tuple(f"channel {i + 1}" for i in range(width))
    if len(names) != width:
        raise SequencesError(f"channels should have {width} names, got {len(names)}")
    if ids and len(ids) != len(pieces):
        raise SequencesError(f"ids should have {len(pieces)} names, got {len(ids)}")
    return Sequences(
        np.concatenate(pieces) if pieces else np.empty((0, width)),
        count,
        tuple(Channel(name) for name in names),
        tuple(map(str, ids)) or tuple(str(i) for i in range(len(pieces))),
        None if target is None else _target(target, count, target_name, lengths),
        None if groups is None else _codes(groups, len(pieces), "groups"),
    )


def _pieces(sequences: Any, lengths: Any, name: str) -> list[Numbers]:
    """Each sequence as (time, channels)."""
    try:
        padded = isinstance(sequences, np.ndarray) and sequences.dtype != object
        pieces = [np.asarray(piece, dtype=np.float64) for piece in sequences]
    except (TypeError, ValueError) as error:
        raise SequencesError(f"{name} should be numbers: {error}") from error
    if lengths is not None:
        ends = _whole(lengths, len(pieces), "lengths")
        if not padded or any(not 1 <= end <= len(p) for end, p in zip(ends, pieces, strict=True)):
            raise SequencesError(
                "lengths should go with one padded array, each at least 1 and at most its time"
            )
        pieces = [piece[:end] for piece, end in zip(pieces, ends, strict=True)]
    pieces = [piece[:, None] if piece.ndim == 1 else piece for piece in pieces]
    for piece in pieces:
        if piece.ndim != 2:
            raise SequencesError(
                f"each of {name} should be (time, channels) or (time), got {piece.ndim} dimensions"
            )
    return pieces


def _whole(given: Any, count: int, name: str) -> Counts:
    found = np.asarray(given)
    if found.shape != (count,) or found.dtype.kind not in "iu":
        raise SequencesError(f"{name} should be {count} whole numbers, got {found.shape}")
    return found.astype(np.int64)


def _codes(given: Any, count: int, name: str) -> Counts:
    found = np.asarray(given)
    if found.shape != (count,):
        raise SequencesError(f"{name} should have {count} entries, got shape {found.shape}")
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _target(given: Any, lengths: Counts, name: str, padding: Any) -> Target:
    """One for each sequence, or for each step where its entries are arrays themselves."""
    rows = list(given)
    if len(rows) != len(lengths):
        raise SequencesError(f"{name} should have {len(lengths)} entries, got {len(rows)}")
    every_step = np.ndim(rows[0]) > 0
    if every_step:
        if padding is not None:
            rows = [row[:end] for row, end in zip(rows, lengths, strict=True)]
        sizes = [len(row) for row in rows]
        if sizes != lengths.tolist():
            raise SequencesError(f"{name} should have one entry for each step of each sequence")
        rows = [one for row in rows for one in row]
    return target_of(np.asarray(rows), name, every_step)


def target_of(values: NDArray[Any], name: str, every_step: bool, labels: bool = False) -> Target:
    """A target from numbers or from labels; `labels` takes numbers as labels too."""
    if values.dtype.kind in "fiu" and not labels:
        return Target(name, values.astype(np.float64), (), every_step)
    if values.dtype.kind == "f" and np.all(values[~np.isnan(values)] % 1 == 0):
        texts = np.array(["" if v != v else str(int(v)) for v in values.tolist()])
    else:
        texts = np.array(["" if v is None or v != v else str(v) for v in values.tolist()])
    classes = tuple(sorted(set(texts.tolist()) - {""}, key=_natural))
    index = {label: float(i) for i, label in enumerate(classes)}
    found = np.array([index.get(text, np.nan) for text in texts.tolist()])
    return Target(name, found, classes, every_step)


def _natural(label: str) -> tuple[float, str]:
    """Labels that are numbers in the order of numbers, before others."""
    try:
        return float(label), label
    except ValueError:
        return float("inf"), label


def looks_like_labels(values: Any) -> bool:
    """Whether numbers are few whole ones that occur again and again."""
    known = values[~np.isnan(values)]
    if not len(known) or np.any(known % 1 != 0):
        return False
    return len(np.unique(known)) <= min(MOST_CLASSES, max(len(known) // 2, 2))
