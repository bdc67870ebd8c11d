"""What was understood of sequences, in sentences: shown before anything is trained."""

from collections.abc import Sequence

import numpy as np

from rda.sequences.dataset import Numbers, Sequences, Target
from rda.sequences.preparing import MOST_CATEGORIES, Preparation, standards
from rda.sequences.problem import Divided, of_kind
from rda.wording import counted, printable

SHOWN = 8
"""Names that are listed; of more, only how many there are."""
TRIED = 10_000
"""Steps that are looked at before all are: most columns do not tell the answer even there."""
UNEVEN = 5
"""A class that is this many times as frequent as another is worth a word."""
PROBLEMS = {
    "label": "a label for each sequence",
    "number": "a number for each sequence",
    "labels": "a label for every step",
    "numbers": "a number for every step",
    "forecast": "a forecast of the next values",
}


def describe(
    sequences: Sequences,
    divided: Divided,
    problem: str,
    preparation: Preparation,
    forecast: Sequence[str] = (),
) -> list[str]:
    """A line on the sequences, the problem and the parts, and one on whatever is unusual; of a
    forecast, also which columns it is of."""
    low, high = int(sequences.lengths.min()), int(sequences.lengths.max())
    lengths = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    names = [channel.name for channel in sequences.channels]
    inputs = counted(len(names), "column")
    lines = [
        f"{counted(len(sequences), 'sequence')} of {lengths} steps, {inputs}: {_listed(names)}",
        f"to be learned: {PROBLEMS[problem]}{_of_target(sequences.target, problem, forecast)}",
        _of_parts(divided, problem),
        *sequences.notes,
        *_missing(sequences, preparation),
        *_many_words(sequences),
    ]
    if problem != "forecast" and sequences.target is not None:
        lines += _numbers_as_labels(sequences.target)
        lines += _uneven(sequences.target)
        lines += _leaks(sequences, sequences.target)
    return [printable(line) for line in lines]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _of_target(target: Target | None, problem: str, forecast: Sequence[str]) -> str:
    if problem == "forecast":
        return f" of {_listed(forecast)}"
    if target is None:
        return ""
    if not target.classes:
        known = target.values[np.isfinite(target.values)]
        span = f", {known.min():.4g} to {known.max():.4g}" if len(known) else ""
        return f", {target.name}{span}"
    counts = _counts(target)
    named = [f"{word} ({count:,})" for word, count in zip(target.classes, counts, strict=True)]
    return f", {target.name}: {_listed(named)}"


def _counts(target: Target) -> list[int]:
    known = target.values[~np.isnan(target.values)].astype(int)
    return [int(count) for count in np.bincount(known, minlength=len(target.classes))]


def _of_parts(divided: Divided, problem: str) -> str:
    if problem == "forecast":
        windows = counted(divided.count("train"), "window")
        return f"parts: the first steps train ({windows}), later ones validate, the last ones test"
    sizes = {part: divided.count(part) for part in ("train", "validation", "test")}
    return (
        f"parts: {sizes['train']:,} train, {sizes['validation']:,} validate, {sizes['test']:,} test"
    )


def _missing(sequences: Sequences, preparation: Preparation) -> list[str]:
    shares = 1 - np.isfinite(sequences.values).mean(0)
    lines = []
    found = [
        f"{channel.name} ({share:.1%})"
        for channel, share in zip(sequences.channels, shares, strict=True)
        if share
    ]
    if found:
        lines.append(f"missing or infinite: {_listed(found)}; their mean stands there, and a mark")
    if sequences.target is not None and np.isnan(sequences.target.values).any():
        without = int(np.isnan(sequences.target.values).sum())
        lines.append(
            f"{counted(without, 'answer')} of {sequences.target.name} missing: not learned"
        )
    unmarked = [
        channel.name
        for channel, share, marked in zip(
            sequences.channels, shares, preparation.masked, strict=False
        )
        if share and not marked
    ]
    if unmarked:
        lines.append(
            f"nothing is missing in the training part of {_listed(unmarked)}: no mark there"
        )
    return lines


def _many_words(sequences: Sequences) -> list[str]:
    return [
        f"{channel.name} has {len(channel.categories):,} different words, of which the first "
        f"{MOST_CATEGORIES} are told apart: leave it out with --ignore if it is a name or a text"
        for channel in sequences.channels
        if len(channel.categories) > MOST_CATEGORIES
    ]


def _numbers_as_labels(target: Target) -> list[str]:
    """Where there are so many that they may be amounts."""
    if len(target.classes) <= SHOWN or of_kind(target, labels=False).classes:
        return []
    problem = "numbers" if target.every_step else "number"
    return [
        f"the {len(target.classes):,} different numbers of {target.name} are labels; --problem "
        f"{problem} learns how large they are"
    ]


def _uneven(target: Target) -> list[str]:
    counts = [count for count in _counts(target) if count] if target.classes else []
    if len(counts) < 2 or max(counts) < UNEVEN * min(counts):
        return []
    return [
        f"the classes are uneven, {max(counts):,} to {min(counts):,}: accuracy favours the "
        "frequent ones, --balanced gives each the same weight"
    ]


def _leaks(sequences: Sequences, target: Target) -> list[str]:
    """Columns that give the answer away."""
    answers = target.values
    if not target.every_step:
        answers = np.repeat(answers, sequences.lengths)
    suspects = [
        channel.name
        for i, channel in enumerate(sequences.channels)
        if _tells(sequences.values[:, i], answers, bool(target.classes))
    ]
    if not suspects:
        return []
    return [
        f"warning: {_listed(suspects)} tells {target.name} exactly; if it would not be known in "
        "use, leave it out with --ignore"
    ]


def _tells(column: Numbers, answers: Numbers, are_labels: bool) -> bool:
    known = np.isfinite(column) & np.isfinite(answers)
    column, answers = column[known], answers[known]
    if len(column) < 3 or np.ptp(column) == 0 or np.ptp(answers) == 0:
        return False
    if not are_labels:
        (a, a_spread), (b, b_spread) = standards(column), standards(answers)
        alike = np.mean((column - a) / a_spread * ((answers - b) / b_spread))
        return bool(abs(alike) > 1 - 1e-9)
    if not _is_function(column[:TRIED], answers[:TRIED]) or not _is_function(column, answers):
        return False
    return len(np.unique(column)) <= max(len(column) // 10, len(np.unique(answers)))


def _is_function(column: Numbers, answers: Numbers) -> bool:
    """Whether a value always comes with the same answer."""
    values, place = np.unique(column, return_inverse=True)
    answer = np.empty(len(values))
    answer[place] = answers
    return bool(np.all(answer[place] == answers))
