"""Columns of every kind come through Parquet files, and a bad file gives one line."""

import datetime
import decimal
import re

import numpy as np
import pytest

from rda.sequences import Roles, SequencesError, parquet_files, read

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
N = 12
BASE = {"id": np.repeat([0, 1, 2], 4), "t": np.tile(np.arange(4), 3), "x": np.arange(N) / 8}
DAYS = [datetime.date(2020, 1, 1 + i) for i in range(N)]
HOURS = [3600 * i for i in range(N)]
IN_DAYS, IN_HOURS = ([1577836800 + unit * hour for hour in HOURS] for unit in (24, 1))
DECIMALS = [decimal.Decimal(i) for i in range(N)]
MOMENTS = [datetime.datetime(2020, 1, 1, i) for i in range(N)]


def write(tmp_path, columns, name="a.parquet", **options):
    parquet.write_table(pyarrow.table(columns), tmp_path / name, **options)
    return tmp_path / name


def refused(path, roles=None):
    with pytest.raises(SequencesError) as caught:
        read(path, roles or Roles())
    assert str(caught.value).isprintable()
    return str(caught.value)


def array(values, type=None):
    return pyarrow.array(values, type=type)


EVERY_KIND = {
    "a decimal": (array([decimal.Decimal(i) / 8 for i in range(N)]), np.arange(N) / 8),
    "a long decimal": (array(DECIMALS, pyarrow.decimal256(70, 2)), range(N)),
    "half precision": (array(np.arange(N, dtype=np.float16)), range(N)),
    "large whole numbers": (array([2**64 - 1] * N, pyarrow.uint64()), [2.0**64] * N),
    "numbers in a dictionary": (array([1.5, None] * 6).dictionary_encode(), [1.5, np.nan] * 6),
    "missing numbers": (array([1, None] * 6), [1, np.nan] * 6),
    "no number": (pyarrow.nulls(N, pyarrow.float64()), [np.nan] * N),
    "nothing": (pyarrow.nulls(N), [np.nan] * N),
    "days": (array(DAYS), IN_DAYS),
    "days in milliseconds": (array(DAYS, pyarrow.date64()), IN_DAYS),
    "moments": (array(MOMENTS, pyarrow.timestamp("ns", "Asia/Tokyo")), IN_HOURS),
    "moments in seconds": (array(MOMENTS, pyarrow.timestamp("s")), IN_HOURS),
    "times of day": (array([datetime.time(i) for i in range(N)]), HOURS),
    "short times of day": (array(list(map(datetime.time, range(N))), pyarrow.time32("s")), HOURS),
    "durations": (array([datetime.timedelta(hours=i) for i in range(N)]), HOURS),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERY_KIND)
def test_numbers_of_every_kind(tmp_path, monkeypatch, name):
    column, expected = EVERY_KIND[name]
    path = write(tmp_path, BASE | {"z": column}, row_group_size=5)
    for cells in (parquet_files.CELLS, 6):
        monkeypatch.setattr(parquet_files, "CELLS", cells)
        found = read(path, Roles(features=("z",)))
        np.testing.assert_array_equal(found.values[:, 0], np.array(list(expected), dtype=float))
        assert found.channels[0].categories == ()


WORDS = {
    "words": (array(["b", "a"] * 6), ("a", "b")),
    "words in a dictionary": (array(["b", None] * 6).dictionary_encode(), ("b",)),
    "long words": (array(["b", "a"] * 6, pyarrow.large_string()), ("a", "b")),
    "yes and no": (array([True, False, None] * 4), ("False", "True")),
    "bytes": (array([b"\xff", b"a"] * 6), ("\\xff", "a")),
    "bytes of one size": (array([b"ab", b"cd"] * 6, pyarrow.binary(2)), ("ab", "cd")),
    "marks of what is missing": (array(["NA", "?", "a", ""] * 3), ("a",)),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_of_every_kind(tmp_path, monkeypatch, name):
    column, words = WORDS[name]
    monkeypatch.setattr(parquet_files, "CELLS", 6)
    found = read(write(tmp_path, BASE | {"z": column}), Roles(features=("z",)))
    assert found.channels[0].categories == words


NESTED = {
    "lists": [[1, 2]] * N,
    "records": [{"a": 1}] * N,
    "maps": array([[("a", 1)]] * N, pyarrow.map_(pyarrow.string(), pyarrow.int64())),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_columns_are_refused_only_where_they_have_a_role(tmp_path, name):
    path = write(tmp_path, BASE | {"z": NESTED[name]})
    assert "column z holds" in refused(path)
    assert len(read(path, Roles(ignore=("z",)))) == 3
    assert len(read(path, Roles(features=("x",)))) == 3


def test_names_are_exact_and_read_with_dots(tmp_path):
    columns = BASE | {"id": np.repeat([2**60, 2**60 + 1, 5], 4), "a.b": BASE["x"]}
    found = read(write(tmp_path, columns), Roles(features=("a.b",)))
    assert found.ids == (str(2**60), str(2**60 + 1), "5")
    dates = read(write(tmp_path, BASE | {"id": array(np.repeat(DAYS[:3], 4).tolist())}))
    assert dates.ids == ("2020-01-01", "2020-01-02", "2020-01-03")
    assert "holds numbers as texts" in read(write(tmp_path, BASE | {"z": ["1"] * N})).notes[-1]


def test_several_files(tmp_path):
    write(tmp_path, BASE, "a.parquet")
    write(tmp_path, BASE | {"x": pyarrow.nulls(N)}, "b.parquet")
    found = read(tmp_path)
    assert np.isnan(found.values[:, 1]).sum() == N
    write(tmp_path, BASE | {"x": ["w"] * N}, "c.parquet")
    assert "x holds numbers in" in refused(tmp_path)
    write(tmp_path, {"x": [1.0]}, "c.parquet")
    assert "other columns than" in refused(tmp_path)


WHOLE = pyarrow.BufferOutputStream()
parquet.write_table(pyarrow.table(BASE), WHOLE)
WHOLE = WHOLE.getvalue().to_pybytes()
DAMAGED = {
    "nothing": b"",
    "a beginning": b"PAR1 and no more",
    "noise": bytes(np.random.default_rng(0).integers(0, 256, 999, dtype=np.uint8)),
    "noise between the marks": b"PAR1" + bytes(range(256)) * 9 + b"PAR1",
    "no end": WHOLE[:-20],
    "no middle": WHOLE[:100] + WHOLE[-700:],
    "changed pages": WHOLE[:30] + b"\xff" * 60 + WHOLE[90:],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_gives_one_line(tmp_path, name):
    (tmp_path / "a.parquet").write_bytes(DAMAGED[name])
    assert "cannot be read as Parquet" in refused(tmp_path / "a.parquet")


def test_files_that_hold_no_rows_or_two_columns_of_one_name(tmp_path):
    assert "has no rows" in refused(write(tmp_path, {"x": np.empty(0)}))
    table = pyarrow.Table.from_arrays([array([1]), array([2])], names=["x", "x"])
    parquet.write_table(table, tmp_path / "a.parquet")
    assert "two columns with one name" in refused(tmp_path / "a.parquet")
    assert re.search("row 1 has no id", refused(write(tmp_path, BASE | {"id": pyarrow.nulls(N)})))


def test_frames_with_cells_of_every_kind():
    import pandas

    frame = pandas.DataFrame(BASE)
    frame["some"] = pandas.array([True, None] * 6, dtype="boolean")
    frame["mixed"] = pandas.Series([1, None, 2.5, np.nan, 10**400, 3] * 2, dtype=object)
    frame["far"] = np.array(["9999-01-01"] * N, dtype="datetime64[s]")
    found = read(frame, Roles(features=("x", "some", "mixed", "far")))
    assert found.channels[1].categories == ("True",)
    np.testing.assert_array_equal(found.values[:6, 2], [1, np.nan, 2.5, np.nan, np.nan, 3])
    assert found.values[0, 3] == 253370764800
    frame["listed"] = [np.zeros(2)] * N
    assert read(frame).channels[-1].categories == ("[0. 0.]",)
    with pytest.raises(SequencesError, match="holds complex128"):
        read(pandas.DataFrame({"x": [1j]}))
    with pytest.raises(SequencesError, match="two columns with one name"):
        read(pandas.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(SequencesError, match="is empty"):
        read(pandas.DataFrame({"x": []}))
