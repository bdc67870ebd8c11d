"""Sequences of unequal length in one array, with what is to be learned from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rda.sequences.extremes import tame
from rda.sequences.found import NAMES_ALONE, Found
from rda.wording import printable

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_CLASSES = 100
"""Whole numbers with at most so many values, each seen twice or more, are taken for labels."""
MOST_CHANNELS = 10_000
"""More columns than this are a mistake more often than they are data."""
EXACT = 2.0**53
"""From here on, floats do not tell neighbouring whole numbers apart."""
NUMBERS = (int, float)
LONGEST_MESSAGE = 600
"""Characters: a cell or a list of names may be far longer than a line."""


class SequencesError(ValueError):
    """Sequences that cannot be used; the message is one line that says why and what would help."""

    def __init__(self, message: str) -> None:
        # Names of columns and cells come from files: a terminal must not obey what they hold.
        line = printable(message)
        super().__init__(line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + "...")


def check_width(channels: int) -> None:
    """An error where there are too many channels."""
    if channels > MOST_CHANNELS:
        raise SequencesError(
            f"there are {channels:,} columns, and at most {MOST_CHANNELS:,} can be inputs: name "
            "some of them with features"
        )


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
    found: Found = NAMES_ALONE
    """What the columns of a table are for that nobody named."""

    def __post_init__(self) -> None:
        if not len(self.lengths):
            raise SequencesError("there is no sequence in the data")
        if not self.channels:
            raise SequencesError("no column is left as an input: every one has another role")
        check_width(len(self.channels))

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Counts:
        """(sequences): the first step of each."""
        return np.concatenate(([0], np.cumsum(self.lengths)[:-1])).astype(np.int64)

    @property
    def step_numbers(self) -> Counts:
        """(steps): the place of each step in its own sequence."""
        return np.arange(self.lengths.sum()) - np.repeat(self.starts, self.lengths)

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
    values, counts, padding = _steps(sequences, lengths)
    width = values.shape[1]
    names = tuple(map(str, channels)) or tuple(f"channel {i + 1}" for i in range(width))
    if len(names) != width or len(set(names)) != width:
        raise SequencesError(f"channels should be {width} different names, got {len(names)}")
    if len(ids) and len(ids) != len(counts):
        raise SequencesError(f"ids should have {len(counts)} names, got {len(ids)}")
    return Sequences(
        values,
        counts,
        tuple(Channel(name) for name in names),
        tuple(map(str, ids)) or tuple(map(str, range(len(counts)))),
        None if target is None else _target(target, counts, target_name, padding),
        None if groups is None else _codes(groups, len(counts), "groups"),
    )


def _steps(sequences: Any, lengths: Any) -> tuple[Numbers, Counts, Counts | None]:
    """(steps, channels), (sequences), and the time that each was padded to where it was."""
    if not isinstance(sequences, np.ndarray) or sequences.dtype == object:
        if lengths is not None:
            raise SequencesError("lengths should go with one padded array")
        return *_joined(sequences), None
    if sequences.ndim not in (2, 3):
        raise SequencesError(
            "an array should be (sequences, time, channels) or (sequences, time), got "
            f"{sequences.ndim} dimensions"
        )
    steps = _numbers(sequences)
    steps = steps[:, :, None] if steps.ndim == 2 else steps
    count, time, width = steps.shape
    if not time:
        raise SequencesError("the sequences have no step")
    if lengths is None:
        return steps.reshape(count * time, width), np.full(count, time, dtype=np.int64), None
    ends = whole_numbers(lengths, "lengths")
    if len(ends) != count or not np.all((ends >= 1) & (ends <= time)):
        raise SequencesError(
            f"lengths should be one for each of {count:,} sequences, each at least 1 and at most "
            f"{time:,}; or add up to {count:,} steps, each at least 1"
        )
    return steps[np.arange(time) < ends[:, None]], ends, ends


def _joined(sequences: Any) -> tuple[Numbers, Counts]:
    try:
        pieces = [_numbers(np.asarray(piece)) for piece in sequences]
    except (TypeError, ValueError) as error:
        raise SequencesError(f"sequences should be numbers: {error}") from error
    pieces = [piece[:, None] if piece.ndim == 1 else piece for piece in pieces]
    for piece in pieces:
        if piece.ndim != 2:
            raise SequencesError(
                f"each sequence should be (time, channels) or (time), got {piece.ndim} dimensions"
            )
    sizes = {piece.shape[1] for piece in pieces}
    if len(sizes) > 1:
        raise SequencesError(f"sequences should have equally many channels, got {sorted(sizes)}")
    counts = np.array([len(piece) for piece in pieces], dtype=np.int64)
    if not all(counts):
        raise SequencesError(f"sequence {int(np.argmin(counts))} has no step")
    return np.concatenate(pieces) if pieces else np.empty((0, 0)), counts


def _numbers(values: NDArray[Any]) -> Numbers:
    if values.dtype.kind not in "fiubO":
        raise SequencesError(f"sequences should be numbers, got {values.dtype}")
    with np.errstate(over="ignore"):
        return tame(values.astype(np.float64, copy=False))


def whole_numbers(given: Any, name: str) -> Counts:
    """A list of whole numbers; an error for anything else."""
    found = np.asarray(given)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise SequencesError(f"{name} should be whole numbers, got {found.dtype} {found.shape}")
    return found.astype(np.int64)


def _codes(given: Any, count: int, name: str) -> Counts:
    found = np.asarray(given)
    if found.shape != (count,) or found.dtype.kind not in "fiubUS":
        raise SequencesError(
            f"{name} should be {count} numbers or words, got {found.dtype} {found.shape}"
        )
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _target(given: Any, lengths: Counts, name: str, padding: Counts | None) -> Target:
    """One for each sequence, or for each step where its entries are arrays themselves."""
    try:
        rows = list(given)
    except TypeError as error:
        raise SequencesError(f"{name} should be a list, got one value") from error
    if len(rows) != len(lengths):
        raise SequencesError(f"{name} should have {len(lengths)} entries, got {len(rows)}")
    try:
        if not rows or np.ndim(rows[0]) == 0:
            return target_of(np.asarray(given), name, False)
        if padding is not None:
            rows = [row[:end] for row, end in zip(rows, lengths, strict=True)]
        pieces = [np.ravel(np.asarray(row)) for row in rows]
        if [len(piece) for piece in pieces] == lengths.tolist():
            return target_of(np.concatenate(pieces), name, True)
    except SequencesError:
        raise
    except (TypeError, ValueError) as error:
        raise SequencesError(f"{name} cannot be used: {error}") from error
    raise SequencesError(f"{name} should have one entry for each step of each sequence")


def target_of(values: NDArray[Any], name: str, every_step: bool, labels: bool = False) -> Target:
    """A target from numbers or from labels; `labels` takes numbers as labels too."""
    if values.ndim != 1 or values.dtype.kind not in "fiubUSO":
        raise SequencesError(f"{name} should be numbers or words, got {values.dtype}")
    listed = values.tolist()
    if values.dtype.kind in "fiu" or all(one is None or type(one) in NUMBERS for one in listed):
        with np.errstate(over="ignore"):
            found = tame(values.astype(np.float64))
        found = np.where(np.isfinite(found), found, np.nan)
        if not labels:
            return Target(name, found, (), every_step)
        listed = [one if one == one else None for one in found.tolist()]
    texts = ["" if one is None or one != one else text_of(one) for one in listed]
    classes = tuple(sorted(set(texts) - {""}, key=_natural))
    index = {label: float(i) for i, label in enumerate(classes)}
    return Target(name, np.array([index.get(text, np.nan) for text in texts]), classes, every_step)


def text_of(value: Any) -> str:
    """A label or a name as a text; whole numbers without a point."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _natural(label: str) -> tuple[float, str]:
    """Labels that are numbers in the order of numbers, before others."""
    try:
        number = float(label)
    except ValueError:
        return np.inf, label
    return (number if np.isfinite(number) else np.inf), label


def looks_like_labels(values: Any) -> bool:
    """Whether numbers are few whole ones that occur again and again."""
    known = values[np.isfinite(values)]
    if not len(known) or np.any(known % 1 != 0) or np.abs(known).max() >= EXACT:
        return False
    return len(np.unique(known)) <= min(MOST_CLASSES, max(len(known) // 2, 2))
