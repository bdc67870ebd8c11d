"""Tables of Parquet files, some rows at a time, and only the columns that have a role."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from rda.sequences.columns import SECONDS, ColumnBuilder, Table
from rda.sequences.dataset import Numbers, SequencesError, text_of
from rda.sequences.foreign import as_one_line
from rda.sequences.memory import require
from rda.sequences.roles import Roles, understood
from rda.sequences.tables import bytes_a_row, names_of

CELLS = 1 << 18
"""Cells that are read at a time."""


def read_parquet(paths: list[Path], roles: Roles) -> Table:
    """The columns of one or more files with the same columns."""
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise SequencesError(
            "Parquet needs the package pyarrow: pip install 'rda-torch[parquet]'"
        ) from None
    kinds: dict[str, str] = {}
    rows, first, found = [], None, roles
    for path in paths:
        with as_one_line(path, "Parquet"), parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            if first is None:
                first = _names(schema, path)
                found = understood(first, roles, len(paths) > 1)
            if schema.names != first:
                raise SequencesError(f"{path} has other columns than {paths[0]}")
            for name, kind in _kinds(schema, found):
                before = kinds.get(name, "nothing")
                if "nothing" not in (kind, before) and kind != before:
                    raise SequencesError(f"{name} holds {before} in {paths[0]}, {kind} in {path}")
                kinds[name] = kind if before == "nothing" else before
            rows.append(file.metadata.num_rows)
            if rows[-1] < 1:  # a damaged file may promise fewer than none
                raise SequencesError(f"{path} has no rows")
            require(sum(rows) * bytes_a_row(found), str(path))
    builders = {name: ColumnBuilder(kind, sum(rows)) for name, kind in kinds.items()}
    for path in paths:
        # Without the buffer a whole column of a row group would be read at once.
        with as_one_line(path, "Parquet"), parquet.ParquetFile(path, buffer_size=1 << 20) as file:
            size = max(CELLS // max(len(kinds), 1), 1)
            for batch in file.iter_batches(size, columns=list(kinds), use_threads=False):
                for name, builder in builders.items():
                    _add(builder, batch.column(name))
                require(8 * sum(rows) * len(found.features), str(path))
    with as_one_line(paths[0], "Parquet"):
        columns = {name: builder.finish() for name, builder in builders.items()}
    files = np.repeat(np.arange(len(paths)), rows).astype(np.int64)
    given, header = bool(roles.features), tuple(first or ())
    return Table(columns, files, names_of(paths), found, given, header=header)


def _names(schema: Any, path: Path) -> list[str]:
    names = list(schema.names)
    if len(set(names)) < len(names):
        raise SequencesError(f"{path} has two columns with one name")
    return names


def _kinds(schema: Any, roles: Roles) -> Iterator[tuple[str, str]]:
    """What each column that is read holds."""
    for name in roles.columns:
        # Nobody asked for a column that is only looked at.
        with suppress(SequencesError) if name in roles.looked_at else nullcontext():
            yield name, _kind(schema.field(name).type, name in roles.names_only, name)


def _kind(type: Any, is_name: bool, name: str) -> str:
    """What a column of Arrow's type is here."""
    from pyarrow import types

    if types.is_dictionary(type):
        type = type.value_type
    if types.is_null(type):
        return "nothing"
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_temporal)
    textual = (types.is_string, types.is_large_string, types.is_string_view, types.is_boolean)
    binary = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if any(is_one(type) for is_one in numeric) and not types.is_interval(type):
        is_moment = types.is_timestamp(type) or types.is_date(type)
        return "words" if is_name else "moments" if is_moment else "numbers"
    if any(is_one(type) for is_one in (*textual, *binary)):
        return "words"
    raise SequencesError(
        f"column {name} holds {type}, and not numbers or words: leave it out with ignore"
    )


def _add(builder: ColumnBuilder, column: Any) -> None:
    from pyarrow import types

    if types.is_null(column.type):
        builder.add_values(np.full(len(column), np.nan))
    elif builder.kind == "words":
        _add_words(builder, column)
    else:
        builder.add_values(_numbers(column))


def _add_words(builder: ColumnBuilder, column: Any) -> None:
    from pyarrow import string, types

    if types.is_temporal(column.type):
        column = column.cast(string())
    coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
    places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    words = ["" if one is None else text_of(one) for one in coded.dictionary.to_pylist()]
    builder.add_words(places, words)


def _numbers(column: Any) -> Numbers:
    """NaN where missing; dates and times in seconds."""
    from pyarrow import float64, int32, int64, types

    type, divisor = column.type, 1.0
    if types.is_dictionary(type):
        column = column.dictionary_decode()
        type = column.type
    if types.is_temporal(type):
        days = types.is_date32(type)
        divisor = 1 / 86400 if days else SECONDS[getattr(type, "unit", "ms")]
        if types.is_time32(type) or days:
            column = column.cast(int32())
        column = column.cast(int64())
    found: Numbers = column.cast(float64(), safe=False).to_numpy(zero_copy_only=False)
    return found / divisor
