"""Tables of text that are broken or meant badly: a right result, or one line that says why."""

import gzip
import random
import re

import numpy as np
import pytest
import torch
from made_data import table_rows as rows

from rda.sequences import Roles, SequencesError, read, tables, text_files
from rda.tasks import TaskError
from rda.tasks.own_sequences import OwnSequences

HEAD = "id,t,x,y\n"


GOOD = HEAD + rows()


def write(tmp_path, content, name="a.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(path, roles=None, **options):
    """The one line."""
    with pytest.raises(SequencesError) as caught:
        read(path, roles or Roles(), **options)
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 1000
    return line


REFUSED = {
    "nothing": (b"", "is empty"),
    "spaces": (b" \n \n", "is empty"),
    "a header alone": (HEAD, "no rows below its header"),
    "another encoding": (GOOD.replace("x", "é").encode("latin-1"), "is not written in utf-8"),
    "utf-16": (GOOD.encode("utf-16"), "not written in utf-8.*utf-16"),
    "utf-16 without a mark": (GOOD.encode("utf-16-le"), "NUL characters"),
    "utf-32": (GOOD.encode("utf-32"), "not written in utf-8"),
    "binary": (b"\0\1\2\3" * 100, "NUL characters"),
    "two columns of one name": ("id,t,t,y\n" + rows(), "two columns with the name 't'"),
    "names that differ in spaces": ("id,t, t ,y\n" + rows(), "two columns with the name 't'"),
    "a row that is too short": (GOOD + "1,2\n", "row 81 of .* has 2 cells, and there are 4"),
    "a row that is too long": (GOOD + "1,2,3,4,5\n", "row 81 of .* has 5 cells"),
    "an open quote": (GOOD + '1,"2\n', "cannot be read as a table: unexpected end of data"),
    "a quote in the middle": (GOOD + '1,"2"3,4,5\n', "cannot be read as a table"),
    "an enormous cell": (GOOD + "1,1," + "9" * 200_000 + ",1\n", "field larger than"),
    "too many columns": (",".join(f"c{i}" for i in range(100_001)) + "\n", "has 100,001 columns"),
    "a million columns": (b"1," * 999_999 + b"1\n", "has 1,000,000 columns"),
    "too many inputs": (
        ",".join(f"c{i}" for i in range(10_001)) + "\n" + "1," * 10_000 + "1\n",
        "there are 10,001 columns, and at most 10,000 can be inputs: name some",
    ),
    "sequences without a name": (GOOD + ",1,2,3\n", "row 81 has no id, which names"),
    "steps without a time": (GOOD + "1,,2,3\n", "row 81 has no t, which orders"),
    "an infinite time": (GOOD + "1,inf,2,3\n", "row 81 has an infinite t"),
    "times that are words": (HEAD + rows(t=["b", "a", "d", "c"].__getitem__), "holds 'a'"),
    "dates of another style": (HEAD + rows(t=lambda t: f"{t + 1}/13/2020"), "'1/13/2020'"),
    "dates and words": (
        HEAD + rows(t=lambda t: f"2020-01-0{t + 1}" if t else "soon"),
        "t should order the steps .* and holds 'soon'",
    ),
    "all missing": (HEAD + ",,,\n" * 9, "row 1 has no id"),
    "only roles": ("id,t,y\n" + "1,2,3\n", "no column is left as an input"),
    "a line for a spreadsheet": ("sep=,\n" + GOOD, "row 1 of .* has 4 cells, and there are 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_used_gives_one_line(tmp_path, name):
    content, message = REFUSED[name]
    assert re.search(message, refused(write(tmp_path, content)))


SAME = {
    "a mark of utf-8": "\ufeff".encode() + GOOD.encode(),
    "lines of Windows": GOOD.replace("\n", "\r\n"),
    "lines of old Macs": GOOD.replace("\n", "\r"),
    "lines of all kinds": GOOD.replace("\n", "\r\n", 9).replace("\r\n", "\r", 3),
    "semicolons": GOOD.replace(",", ";"),
    "bars": GOOD.replace(",", "|"),
    "quotes": re.sub(r"\d+", lambda number: f'"{number[0]}"', GOOD),
    "spaces": GOOD.replace(",", " , "),
    "empty lines": GOOD.replace("\n", "\n\n"),
    "no last line end": GOOD.rstrip(),
    "many empty lines": GOOD.replace("\n", "\n" * 5_000, 9),
    "a column without a value": GOOD.replace("\n", ",\n"),
    "a named column without a value": "id,t,x,y,z\n" + rows(y=lambda i, t: f"{i % 2},"),
}


@pytest.mark.parametrize("name", SAME)
def test_a_table_that_is_written_differently_is_the_same(tmp_path, name):
    expected = read(write(tmp_path, GOOD, "good.csv"))
    found = read(write(tmp_path, SAME[name]))
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.target.values, expected.target.values)
    assert (found.ids, found.channels) == (expected.ids, expected.channels)


def test_blocks_of_any_size_give_the_same_table(tmp_path, monkeypatch):
    words = [f'"a\nb{i % 3}"' if i % 5 else "" for i in range(80)]
    path = write(tmp_path, HEAD + rows(x=lambda i, t: words[4 * i + t]))
    expected = read(path)
    for size in (1, 7, 100):
        monkeypatch.setattr(tables, "BLOCK", size)
        found = read(path)
        np.testing.assert_array_equal(found.values, expected.values)
        assert found.channels == expected.channels


KINDS = {
    "numbers": (["1", "2.5", "", "nan", "-3e2"], ()),
    "numbers that are too large": (["1e400", "1", "2"], ()),
    "underscores": (["1_0", "2", "3"], ("1_0", "2", "3")),
    "dates": (["2020-01-01", "", "2020-01-01T12:00:00+01:00"], ()),
    "dates after numbers": (["20200101"] * 9 + ["5.5"] * 9 + ["2020-01-01"], None),
    "dates without hyphens and with": (["20200101"] * 9 + ["2020-01-02"], ()),
    "words after missing cells": ([""] * 9 + ["a"], ("a",)),
    "a separator of lines": (["a\u2028b", "a\x0bb\x0c", "\x85"], None),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_a_column_holds_does_not_depend_on_blocks(tmp_path, monkeypatch, name):
    cells, words = KINDS[name]
    path = write(tmp_path, "x,z\n" + "".join(f"{cell},1\n" for cell in cells))
    whole = read(path, Roles(features=("x",)))
    if words is not None:
        assert whole.channels[0].categories == words
    monkeypatch.setattr(tables, "BLOCK", 1)
    pieces = read(path, Roles(features=("x",)))
    np.testing.assert_array_equal(pieces.values, whole.values)
    assert pieces.channels == whole.channels


def test_names_that_look_like_numbers_stay_apart(tmp_path):
    large = read(write(tmp_path, HEAD + rows(id=lambda i: 12345678901234567890 + i)))
    assert large.ids[:2] == ("12345678901234567890", "12345678901234567891")
    zeros = read(write(tmp_path, HEAD + rows(id=lambda i: "0" * (i % 2) + str(i // 2))))
    assert zeros.ids[:4] == ("0", "00", "1", "01")
    assert len(read(write(tmp_path, HEAD + rows(id=lambda i: f"{i}e999")))) == 20
    grouped = "id,t,x,y,g\n" + rows(y=lambda i, t: f"{i % 2},{10**18 + i // 2}")
    assert len(set(read(write(tmp_path, grouped), Roles(group="g")).groups.tolist())) == 10


def test_times_with_zones_and_times_that_are_too_large(tmp_path):
    zones = ["2020-01-01T03:00:00+03:00", "2020-01-01T01:00:00Z", "2020-01-01T01:00:00-01:00",
             "2020-01-01T23:00:00+20:00"]  # fmt: skip
    found = read(write(tmp_path, HEAD + rows(t=zones.__getitem__, x=lambda i, t: t * t)))
    assert found.values[:4, 0].tolist() == [0, 1, 4, 9]
    found = read(write(tmp_path, HEAD + rows(t=lambda t: 2**60 + t)))
    assert "numbers that large are not told apart" in found.notes[-1]


def test_rows_of_any_order_with_steps_that_occur_twice(tmp_path):
    lines = rows(t=lambda t: t // 2).splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    found = read(write(tmp_path, HEAD + "".join(lines)))
    assert found.lengths.tolist() == [4] * 20
    assert [note[:30] for note in found.notes[2:]] == [
        "40 steps have the same t as th", "steps were sorted by t"
    ]  # fmt: skip


def test_first_rows_of_numbers(tmp_path):
    found = read(write(tmp_path, rows()))
    assert len(found.values) == 80
    assert "holds values: it is a step" in found.notes[0]
    # As a frame without names is written.
    named = read(write(tmp_path, "0,1,2,3\n" + rows()), Roles(features=("0", "1", "2", "3")))
    assert len(named.values) == 80
    assert [channel.name for channel in named.channels] == ["0", "1", "2", "3"]
    assert read(write(tmp_path, "id,t,1,y\n" + rows())).channels[0].name == "1"
    assert len(read(write(tmp_path, "7,7,7\n1,2,3\n")).channels) == 3


def test_a_name_with_a_comma_or_a_line_end_can_be_given(tmp_path):
    path = write(tmp_path, 'id,t,"a,b","c\nd",y\n' + rows(x=lambda i, t: f"{i},{t / 2}"))
    task = OwnSequences(data=str(path), features='"a,b"')
    assert [channel.name for channel in task.read().channels] == ["a,b"]
    assert [channel.name for channel in read(path).channels] == ["a,b", "c\nd"]
    with pytest.raises(TaskError, match="separated by commas"):
        OwnSequences(data=str(path), features='"a').open(torch.device("cpu"))


def test_a_wrong_name_among_very_many(tmp_path):
    path = write(tmp_path, ",".join(f"column{i}" for i in range(20_000)) + "\n")
    line = refused(path, Roles(features=("colum7",)))
    assert "no column 'colum7' among 20,000: those most like it are" in line


ENCODINGS = {
    "nonsense": "there is no encoding 'nonsense'",
    "a\0b": "there is no encoding",
    "hex": "there is no encoding",
    "punycode": "is not written in punycode",
    "undefined": "is not written in undefined",
    "utf-32": "is not written in utf-32",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_that_do_not_fit(tmp_path, encoding):
    line = refused(write(tmp_path, GOOD), encoding=encoding)
    assert ENCODINGS[encoding] in line


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig", "UTF_8", "cp1252", "utf-7"])
def test_encodings_that_fit(tmp_path, encoding):
    path = write(tmp_path, GOOD.replace("x", "é").encode(encoding))
    assert read(path, encoding=encoding).channels[0].name == "é"


def test_half_a_character_is_refused_before_it_is_to_be_written(tmp_path):
    path = write(tmp_path, HEAD + rows(y=lambda i, t: f"\\ud80{i % 2}"))
    assert "half a character" in refused(path, encoding="unicode_escape")


PACKED = gzip.compress(GOOD.encode())
DAMAGED = {
    "no gzip": (GOOD.encode(), "Not a gzipped file"),
    "cut": (PACKED[:-20], "ended before"),
    "a wrong sum": (PACKED[:-8] + b"12345678", "CRC"),
    "more behind": (PACKED + b"more", "Not a gzipped file"),
    "empty": (b"", "is empty"),
    "damaged": (PACKED[:20] + b"\xff" * 9 + PACKED[29:], "cannot be read"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_compressed_table_that_is_damaged(tmp_path, name):
    content, message = DAMAGED[name]
    assert message in refused(write(tmp_path, content, "a.csv.gz"))


def test_compressed_tables(tmp_path, monkeypatch):
    for name in ("a.csv.gz", "A.CSV.GZ", "a.tsv.gz"):
        assert len(read(write(tmp_path, PACKED, name))) == 20
    monkeypatch.setattr(text_files, "LARGE", 1 << 20)
    bomb = write(tmp_path, gzip.compress(b"x\n" + b"1\n" * (1 << 20)), "bomb.csv.gz")
    assert "unpacks to more than 200 times its size" in refused(bomb)
    for name in ("a.npz.gz", "a.parquet.gz"):
        assert "should be a file of .csv" in refused(write(tmp_path, PACKED, name))


def test_a_file_without_lines_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST_LINE", 1 << 16)
    with (tmp_path / "a.csv").open("wb") as file:
        file.truncate(1 << 40)  # takes no room on most disks
    assert "a line of more than 65,536 characters" in refused(tmp_path / "a.csv")
