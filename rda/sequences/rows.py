"""Sequences from the rows of a table."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rda.sequences.columns import Column, Table, stray_word, taken_for_words
from rda.sequences.dataset import (
    EXACT,
    Channel,
    Counts,
    Numbers,
    Sequences,
    SequencesError,
    Target,
    looks_like_labels,
    target_of,
)
from rda.sequences.extremes import tame, without_infinities
from rda.sequences.roles import Roles


def from_table(table: Table) -> Sequences:
    """A column names the sequence of each row, or each file is one."""
    roles, columns = table.roles, dict(table.columns)
    code, ids = _sequence_of_rows(table, roles)
    order, notes = _order(table, roles, code)
    code = code[order]
    lengths = np.bincount(code, minlength=len(ids)).astype(np.int64)
    first = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    target = groups = None
    if roles.target:
        column = columns[roles.target]
        target = _target(roles.target, column, column.values[order], code, len(ids))
    if roles.group:
        _check_known(columns[roles.group].values, roles.group, "which groups sequences")
        groups = _groups(roles.group, columns[roles.group].values[order], code, first)
    names, more_notes = _inputs(columns, roles, table.features_given)
    channels = tuple(Channel(name, columns[name].words) for name in names)
    values = np.empty((len(order), len(names)))
    for i, name in enumerate(names):
        values[:, i] = without_infinities(tame(columns[name].values))[order]
    notes = [*table.notes, *notes, *more_notes]
    return Sequences(values, lengths, channels, ids, target, groups, tuple(notes), table.found)


def _inputs(
    columns: Mapping[str, Column], roles: Roles, given: bool
) -> tuple[list[str], list[str]]:
    """The columns that are inputs: all of `features`, and without those that have no value where
    nobody asked for them; with what there is to say of them."""
    empty = {name for name in roles.features if not np.isfinite(columns[name].values).any()}
    if given or empty == set(roles.features):
        empty = set()
    names = [name for name in roles.features if name not in empty]
    notes = [f"{name} has no value and is left out" for name in roles.features if name in empty]
    notes += [note for name in names if (note := taken_for_words(name, columns[name].words))]
    return names, notes


def _sequence_of_rows(table: Table, roles: Roles) -> tuple[Counts, tuple[str, ...]]:
    """The number of each row's sequence, by first appearance, and the names of the sequences."""
    if not roles.sequence:
        return table.files, table.names
    column = table.columns[roles.sequence]
    _check_known(column.values, roles.sequence, "which names its sequence")
    values, first, code = np.unique(column.values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    names = [_name(values[i], column) for i in order]
    return place[code.ravel()], tuple(names)


def _check_known(values: Numbers, name: str, role: str) -> None:
    known = np.isfinite(values)
    if not known.all():
        row = int(np.argmin(known)) + 1
        what = "no" if np.isnan(values[row - 1]) else "an infinite"
        raise SequencesError(f"row {row:,} has {what} {name}, {role}")


def _name(value: float, column: Column) -> str:
    if column.words:
        return column.words[int(value)]
    return str(int(value)) if value % 1 == 0 else str(value)


def _order(table: Table, roles: Roles, code: Counts) -> tuple[Counts, list[str]]:
    """Rows by sequence and time, and what was not so in the file."""
    if not roles.time:
        return np.argsort(code, kind="stable").astype(np.int64), []
    column, notes = table.columns[roles.time], []
    moments = column.as_moments()
    time = column.values if moments is None else moments
    _check_known(time, roles.time, "which orders the steps")
    if moments is None and (stray := stray_word(column)):
        raise SequencesError(
            f"{roles.time} should order the steps with numbers, or with dates such as 2020-01-31, "
            f"and holds {stray!r}: name another column with time, or ignore {roles.time} to keep "
            "the order of the file"
        )
    order = np.lexsort((time, code))  # which keeps the order of equal ones
    same = (time[order][1:] == time[order][:-1]) & (np.diff(code[order]) == 0)
    if same.any():
        too_large = np.abs(time).max() > EXACT
        why = ", as numbers that large are not told apart" if too_large else ""
        several = "" if roles.sequence else "; --sequence names a column that tells several apart"
        notes.append(
            f"{int(same.sum()):,} steps have the same {roles.time} as the step before{why}: they "
            f"are kept in the order of the file{several}"
        )
    within = np.argsort(code, kind="stable")
    if np.any((time[within][1:] < time[within][:-1]) & (np.diff(code[within]) == 0)):
        notes.append(f"steps were sorted by {roles.time}")
    return order.astype(np.int64), notes


def _target(name: str, column: Column, values: Any, code: Counts, count: int) -> Target:
    """For each sequence where it is the same at all steps that have one, else for each step."""
    known = np.isfinite(values)
    of_sequence = np.full(count, np.nan)
    of_sequence[code[known]] = values[known]
    constant = bool(np.all(values[known] == of_sequence[code[known]]))
    # A single sequence has nothing to compare with: its answers are those of its steps.
    every_step = not constant or count == 1
    chosen = np.where(known, values, np.nan) if every_step else of_sequence
    if column.words:
        return Target(name, chosen, column.words, every_step)
    return target_of(chosen, name, every_step, labels=looks_like_labels(chosen))


def _groups(name: str, values: Any, code: Counts, first: Counts) -> Counts:
    if np.any(values != values[first][code]):
        raise SequencesError(
            f"a sequence has several values of {name}, which should group sequences"
        )
    return np.unique(values[first], return_inverse=True)[1].astype(np.int64)
