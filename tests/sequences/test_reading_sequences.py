"""Files of every kind give the same sequences, and a bad file gives one line."""

import gzip

import numpy as np
import pytest
from made_data import waves, write_csv, write_npz, write_ts

from rda.sequences import Roles, SequencesError, read
from rda.sequences.dataset import from_arrays


def assert_same(found, expected):
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_array_equal(found.target.values, expected.target.values)
    assert found.target.classes == expected.target.classes


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_every_kind_of_file_gives_the_same_sequences(tmp_path, missing):
    expected = waves(missing=missing)
    assert_same(read(write_csv(tmp_path / "a.csv", expected)), expected)
    assert_same(read(write_csv(tmp_path / "a.tsv", expected, delimiter="\t")), expected)
    assert_same(read(write_ts(tmp_path / "a.ts", expected)), expected)
    assert_same(read(write_npz(tmp_path / "a.npz", expected)), expected)
    packed = tmp_path / "b.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    assert_same(read(packed), expected)
    pieces = np.split(expected.values, expected.starts[1:])
    words = np.array(expected.target.classes)[expected.target.values.astype(int)]
    assert_same(read({"X": pieces, "y": words}), expected)
    padded = np.full((len(pieces), max(map(len, pieces)), 2), np.nan)
    for row, piece in zip(padded, pieces, strict=True):
        row[: len(piece)] = piece
    assert_same(read({"X": padded, "y": words, "lengths": expected.lengths}), expected)


def test_rows_in_any_order_are_sorted_by_time_and_that_is_said(tmp_path):
    expected = waves(10)
    order = np.random.default_rng(1).permutation(len(expected.values))
    found = read(write_csv(tmp_path / "a.csv", expected, order=order))
    place = [expected.ids.index(name) for name in found.ids]
    assert sorted(place) == list(range(10))
    assert_same(found, expected.chosen(np.array(place)))
    assert found.notes == (
        "series names the sequences; --sequence names another column",
        "t orders the steps; --time names another column",
        "steps were sorted by t",
    )


def test_one_sequence_a_file(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text(
            "x,y\n" + "".join(f"{t * t / 2},{t % 2}\n" for t in range(i + 2))
        )
    found = read(tmp_path)
    assert (found.ids, found.lengths.tolist()) == (("0", "1", "2"), [2, 3, 4])
    assert found.target.every_step


def test_columns_can_be_given_other_roles(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "who,when,x,colour,good\nb,2020-01-02,1,red,1.5\nb,2020-01-01,2,,1.5\na,2020-01-01,3,blue,2.5\n"
    )
    found = read(path, Roles(sequence="who", time="when", target="good"))
    assert found.ids == ("b", "a")
    assert [channel.name for channel in found.channels] == ["x", "colour"]
    assert found.channels[1].categories == ("blue", "red")
    np.testing.assert_array_equal(found.values, [[2, np.nan], [1, 1], [3, 0]])
    assert (found.target.values.tolist(), found.target.every_step) == ([1.5, 2.5], False)
    assert [c.name for c in read(path, Roles(features=("x",))).channels] == ["x"]
    with pytest.raises(SequencesError, match=r"'wo'.*Did you mean.*who"):
        read(path, Roles(sequence="wo"))


def test_numbers_that_are_labels_and_numbers_that_are_not(tmp_path):
    rows = "".join(f"{i},{i * 0.5},{i % 3}\n" for i in range(12))
    (tmp_path / "a.csv").write_text("id,x,y\n" + rows)
    assert read(tmp_path / "a.csv").target.classes == ("0", "1", "2")
    rows = "".join(f"{i},{i * 0.5},{i}\n" for i in range(12))
    (tmp_path / "b.csv").write_text("id,x,y\n" + rows)
    assert read(tmp_path / "b.csv").target.classes == ()


BAD = {
    "empty": (b"", "is empty"),
    "a header alone": (b"id,x,y\n", "no rows"),
    "cells that are too few": (b"id,x,y\n1,2,3\n1,2\n", "row 2 of .* has 2 cells"),
    "another encoding": ("id,x,y\n1,2,é\n".encode("latin-1"), "is not written in utf-8"),
    "binary": (b"\0\1\2\3" * 100, "NUL"),
    "two columns of one name": (b"x,x\n1,2\n", "two columns with the name 'x'"),
    "an open quote": (b'id,x\n1,"2\n', "cannot be read as a table"),
    "no name of a sequence": (b"id,x\n,2\n1,3\n", "row 1 has no id"),
    "only roles": (b"id,t,y\n1,2,3\n", "no column is left as an input"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_gives_one_line(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(SequencesError, match=message) as caught:
        read(tmp_path / "a.csv")
    assert "\n" not in str(caught.value)


def test_other_bad_files_give_one_line(tmp_path):
    with pytest.raises(SequencesError, match="there is no file"):
        read(tmp_path / "nothing.csv")
    (tmp_path / "a.xls").write_text("x")
    with pytest.raises(SequencesError, match=r"should be a file of \.csv"):
        read(tmp_path / "a.xls")
    np.savez(tmp_path / "objects.npz", X=np.array([np.zeros(2), np.zeros(3)], dtype=object))
    with pytest.raises(SequencesError, match="Python objects"):
        read(tmp_path / "objects.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(SequencesError, match="cannot be read as arrays"):
        read(tmp_path / "broken.npz")
    (tmp_path / "wide.csv").write_text(",".join(f"c{i}" for i in range(100_001)) + "\n")
    with pytest.raises(SequencesError, match="100,001 columns"):
        read(tmp_path / "wide.csv")
    (tmp_path / "a.ts").write_text("@classLabel true a b\n1,2:a\n")
    with pytest.raises(SequencesError, match="neither a header nor below @data"):
        read(tmp_path / "a.ts")


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(SequencesError, match="equally many channels"):
        from_arrays([np.zeros((3, 1)), np.zeros((3, 2))])
    with pytest.raises(SequencesError, match="target should have 2 entries, got 1"):
        from_arrays([np.zeros(3), np.zeros(2)], ["a"])
    with pytest.raises(SequencesError, match="sequence 1 has no step"):
        from_arrays([np.zeros(3), np.zeros(0)])
    with pytest.raises(
        SequencesError, match="one for each of 2 sequences, each at least 1 and at most 3"
    ):
        from_arrays(np.zeros((2, 3, 1)), lengths=np.array([3, 4]))


def test_parquet_and_frames_give_the_same_as_a_table_of_text(tmp_path):
    import pandas
    import polars

    expected = waves(20, missing=0.1)
    path = write_csv(tmp_path / "a.csv", expected)
    for frame in (pandas.read_csv(path, float_precision="round_trip"), polars.read_csv(path)):
        assert_same(read(frame), expected)
    pandas.read_csv(path, float_precision="round_trip").to_parquet(tmp_path / "a.parquet")
    assert_same(read(tmp_path / "a.parquet"), expected)


def test_columns_of_every_kind_come_through_parquet(tmp_path):
    import pandas

    frame = pandas.DataFrame(
        {
            "id": ["a", "a", "b"],
            "date": pandas.to_datetime(["2020-01-02", "2020-01-01", "2020-01-01"]),
            "count": pandas.array([1, None, 3], dtype="Int64"),
            "on": [True, False, True],
            "colour": pandas.Categorical(["red", None, "blue"]),
            "y": [1.5, 1.5, 2.5],
        }
    )
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for found in (read(frame), read(tmp_path / "a.parquet"), read(tmp_path / "a.csv")):
        assert found.lengths.tolist() == [2, 1]
        assert found.channels[1].categories == ("False", "True")
        assert found.channels[2].categories == ("blue", "red")
        expected = [[np.nan, 0, np.nan], [1, 1, 1], [3, 1, 0]]
        np.testing.assert_array_equal(found.values, expected)


def test_a_broken_parquet_file_gives_one_line(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SequencesError, match="cannot be read as Parquet"):
        read(tmp_path / "a.parquet")
