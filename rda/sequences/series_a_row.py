"""Tables as the UCR archive has them: a series in each row, its label first, and no names."""

import numpy as np

from rda.sequences.columns import Table
from rda.sequences.dataset import Sequences, SequencesError, from_arrays, looks_like_labels, text_of
from rda.sequences.extremes import without_infinities
from rda.sequences.found import Found

SHORTEST = 8
"""Steps of a series: a table of fewer columns is taken for one of steps."""


def has_series_a_row(table: Table) -> bool:
    """Whether a table without names begins each row with one of few whole numbers in a row, or of
    -1 and 1, and its other columns differ far more often."""
    columns = [table.columns[name] for name in table.header if name in table.columns]
    if _has_names(table) or len(columns) <= SHORTEST or any(one.words for one in columns):
        return False
    first, *others = (one.values for one in columns)
    if not np.isfinite(first).all() or not looks_like_labels(first):
        return False
    labels = np.unique(first)
    in_a_row = bool(np.all(np.diff(labels) == 1)) or labels.tolist() == [-1, 1]
    different = np.median([len(np.unique(other)) for other in others])
    return len(labels) > 1 and in_a_row and bool(different >= 2 * len(labels))


def from_series_a_row(table: Table) -> Sequences:
    """The rows as sequences of one channel; cells that are missing at the end of one are no steps.

    Raises:
        SequencesError: the table has names of columns, or words.
    """
    columns = [table.columns[name] for name in table.header if name in table.columns]
    if _has_names(table) or len(columns) < 2 or any(one.words for one in columns):
        raise SequencesError(
            f"{table.names[0]} should hold numbers without names of columns, a series in each row "
            "and its label first, as the data of training"
        )
    first, *others = (one.values for one in columns)
    values = without_infinities(np.stack(others, 1))
    steps = np.arange(1, values.shape[1] + 1)
    lengths = np.maximum(np.where(np.isfinite(values), steps, 0).max(1), 1)
    labels = np.array([text_of(label) if label == label else None for label in first], dtype=object)
    found = from_arrays(values, labels, lengths=lengths)
    note = (
        f"{table.names[0]} has no names of columns and few whole numbers in the first: each row is "
        "read as a series, its label first; with names of columns a row is a step"
    )
    return Sequences(
        found.values, found.lengths, found.channels, found.ids, found.target, notes=(note,),
        found=Found(series_a_row=True),
    )  # fmt: skip


def _has_names(table: Table) -> bool:
    """Whether columns have names, and not only numbers as frames give them."""
    return not table.headless and not all(name.isdecimal() for name in table.header)
