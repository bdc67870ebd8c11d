"""What each column of a table is for, and the sequences that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rda.names import unknown_name
from rda.sequences.columns import Column, Table
from rda.sequences.dataset import (
    Channel,
    Counts,
    Sequences,
    SequencesError,
    Target,
    looks_like_labels,
    target_of,
)

SEQUENCE_NAMES = ("sequence", "sequence_id", "seq", "seq_id", "series", "series_id", "case", "id")
TIME_NAMES = ("time", "t", "step", "timestamp", "date", "datetime", "year", "index")
TARGET_NAMES = ("target", "label", "class", "y")


@dataclass(frozen=True)
class Roles:
    """What each column of a table is for; empty where that is to be found out."""

    sequence: str = ""
    time: str = ""
    target: str = ""
    group: str = ""
    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def from_table(table: Table, roles: Roles) -> Sequences:
    """Sequences from rows: a column names the sequence, or each file is one."""
    roles = understood(table, roles)
    code, ids = _sequence_of_rows(table, roles)
    order, notes = _order(table, roles, code)
    code = code[order]
    lengths = np.bincount(code, minlength=len(ids)).astype(np.int64)
    first = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    names = _features(table, roles)
    columns = [table.columns[name].values[order] for name in names]
    values = np.stack(columns, 1) if columns else np.empty((len(order), 0))
    channels = tuple(Channel(name, table.columns[name].words) for name in names)
    target = None
    if roles.target:
        column = table.columns[roles.target]
        target = _target(roles.target, column, column.values[order], code, first)
    groups = None
    if roles.group:
        groups = _groups(roles.group, table.columns[roles.group].values[order], code, first)
    return Sequences(values, lengths, channels, ids, target, groups, tuple(notes))


def understood(table: Table, roles: Roles) -> Roles:
    """The roles with those that were not given found by the names of columns."""
    named = [roles.sequence, roles.time, roles.target, roles.group, *roles.features, *roles.ignore]
    for name in filter(None, named):
        if name not in table.columns:
            raise SequencesError(unknown_name("column", name, list(table.columns)))
    taken = {name for name in named if name}
    free = {name.lower(): name for name in table.columns if name not in taken}

    def first(names: Sequence[str]) -> str:
        return next((free[name] for name in names if name in free), "")

    one_a_file = len(table.names) > 1
    return Roles(
        roles.sequence or ("" if one_a_file else first(SEQUENCE_NAMES)),
        roles.time or first(TIME_NAMES),
        roles.target or first(TARGET_NAMES),
        roles.group,
        roles.features,
        roles.ignore,
    )


def _features(table: Table, roles: Roles) -> list[str]:
    if roles.features:
        return list(roles.features)
    others = {roles.sequence, roles.time, roles.target, roles.group, *roles.ignore}
    return [name for name in table.columns if name not in others]


def _sequence_of_rows(table: Table, roles: Roles) -> tuple[Counts, tuple[str, ...]]:
    """The number of each row's sequence, by first appearance, and the names of the sequences."""
    if not roles.sequence:
        return table.files, table.names
    column = table.columns[roles.sequence]
    if np.isnan(column.values).any():
        row = int(np.argmax(np.isnan(column.values))) + 1
        raise SequencesError(f"row {row:,} has no {roles.sequence}, which names its sequence")
    values, first, code = np.unique(column.values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    names = [_name(values[i], column) for i in order]
    return place[code.ravel()], tuple(names)


def _name(value: float, column: Column) -> str:
    if column.words:
        return column.words[int(value)]
    return str(int(value)) if value % 1 == 0 else str(value)


def _order(table: Table, roles: Roles, code: Counts) -> tuple[Counts, list[str]]:
    """Rows by sequence and time, and what was not so in the file."""
    notes = []
    time = table.columns[roles.time].values if roles.time else None
    if time is None:
        order = np.argsort(code, kind="stable")
    else:
        if np.isnan(time).any():
            row = int(np.argmax(np.isnan(time))) + 1
            raise SequencesError(f"row {row:,} has no {roles.time}, which orders the steps")
        order = np.lexsort((np.arange(len(code)), time, code))
        same = (np.diff(time[order]) == 0) & (np.diff(code[order]) == 0)
        if same.any():
            notes.append(
                f"{int(same.sum()):,} steps have the same {roles.time} as the step before: they "
                "are kept in the order of the file"
            )
        within = np.argsort(code, kind="stable")
        if np.any((np.diff(time[within]) < 0) & (np.diff(code[within]) == 0)):
            notes.append(f"steps were sorted by {roles.time}")
    return order.astype(np.int64), notes


def _target(name: str, column: Column, values: Any, code: Counts, first: Counts) -> Target:
    """For each sequence where it is the same at all its steps, otherwise for each step."""
    of_first = values[first][code]
    constant = bool(np.all((values == of_first) | (np.isnan(values) & np.isnan(of_first))))
    # A single sequence has nothing to compare with: its answers are those of its steps.
    every_step = not constant or len(first) == 1
    chosen = values if every_step else values[first]
    if column.words:
        return Target(name, chosen, column.words, every_step)
    if looks_like_labels(chosen):
        return target_of(chosen, name, every_step, labels=True)
    return Target(name, chosen, (), every_step)


def _groups(name: str, values: Any, code: Counts, first: Counts) -> Counts:
    if np.any(values != values[first][code]):
        raise SequencesError(
            f"a sequence has several values of {name}, which should group sequences"
        )
    return np.unique(values[first], return_inverse=True)[1].astype(np.int64)
