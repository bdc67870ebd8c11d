"""Files of arrays and .ts files that are broken or meant badly give one line."""

import gzip
import io
import pickle
import re
import struct
import zipfile

import numpy as np
import pytest

from rda.sequences import SequencesError, read
from rda.sequences.dataset import from_arrays

X = np.random.default_rng(0).normal(size=(30, 5, 2))
FLAT = X.reshape(150, 2)
Y = np.arange(30) % 2


def refused(path):
    with pytest.raises(SequencesError) as caught:
        read(path)
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 1000
    return line


def write(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


REFUSED = {
    "no array": ({}, "there should be an array X, got none"),
    "no X": ({"y": Y}, "there should be an array X, got y"),
    "another name": ({"X": X, "Z": Y}, "unknown array 'Z'"),
    "no sequence": ({"X": X[:0], "y": Y[:0]}, "there is no sequence"),
    "no step": ({"X": X[:, :0], "y": Y}, "have no step"),
    "no channel": ({"X": X[:, :, :0], "y": Y}, "no column is left"),
    "too many channels": ({"X": np.zeros((3, 1, 10_001))}, "at most 10,000"),
    "one number": ({"X": np.array(3.0)}, "got 0 dimensions"),
    "one dimension": ({"X": np.arange(9.0)}, "got 1 dimensions"),
    "four dimensions": ({"X": X[None]}, "got 4 dimensions"),
    "complex numbers": ({"X": X + 1j}, "should be numbers, got complex128"),
    "dates": ({"X": X.astype("datetime64[s]")}, "should be numbers, got datetime64"),
    "words": ({"X": np.full((30, 5), "1")}, "should be numbers, got <U1"),
    "records": ({"X": np.zeros((30, 5), dtype=[("a", "f4")])}, "should be numbers, got "),
    "bytes without a kind": ({"X": np.zeros((30, 5), dtype="V8")}, "should be numbers, got "),
    "objects": ({"X": np.array([{}, 1], dtype=object)}, "Python objects, which are not opened"),
    "objects in records": ({"X": np.zeros(3, dtype=[("a", "O")])}, "Python objects"),
    "one answer": ({"X": X, "y": np.array(3.0)}, "should be a list, got one value"),
    "too few answers": ({"X": X, "y": Y[:5]}, "should have 30 entries, got 5"),
    "answers of two dimensions": ({"X": X, "y": np.zeros((30, 5, 2))}, "one entry for each step"),
    "complex answers": ({"X": X, "y": Y + 1j}, "target should be numbers or words, got complex"),
    "answers that are dates": ({"X": X, "y": Y.astype("M8[s]")}, "numbers or words, got datetime"),
    "answers that are records": ({"X": X, "y": np.zeros(30, dtype="i4,i4")}, "numbers or words"),
    "half a character": ({"X": X, "y": np.array(["\ud800", "c"] * 15)}, "half a character"),
    "lengths of 0": ({"X": X, "lengths": 0 * Y}, "each at least 1 and at most 5"),
    "negative lengths": ({"X": X, "lengths": Y - 9}, "each at least 1 and at most 5"),
    "lengths beyond the end": ({"X": X, "lengths": Y + 5}, "each at least 1 and at most 5"),
    "lengths that overflow": ({"X": X, "lengths": np.full(30, 2**63 - 1)}, "each at least 1"),
    "lengths that wrap": ({"X": X, "lengths": np.full(30, 2**64 - 1, "u8")}, "at least 1"),
    "broken lengths": ({"X": X, "lengths": Y + 0.5}, "should be whole numbers, got float64"),
    "lengths that are missing": ({"X": X, "lengths": Y * np.nan}, "should be whole numbers"),
    "lengths that are words": ({"X": X, "lengths": Y.astype(str)}, "should be whole numbers"),
    "lengths of two dimensions": ({"X": X, "lengths": Y[:, None] + 1}, "should be whole numbers"),
    "one length": ({"X": X, "lengths": np.int64(4)}, "should be whole numbers"),
    "flat with a length of 0": ({"X": FLAT, "lengths": np.array([150, 0])}, "add up to 150 steps"),
    "flat with a negative length": ({"X": FLAT, "lengths": np.array([151, -1])}, "add up to 150"),
    "flat that wraps": ({"X": FLAT, "lengths": np.array([2**63 - 1, 2**63 - 1, 152])}, "add up"),
    "groups of two dimensions": ({"X": X, "groups": np.zeros((30, 2))}, "30 numbers or words"),
    "groups of records": ({"X": X, "groups": np.zeros(30, dtype="i4,i4")}, "30 numbers or words"),
    "one id": ({"X": X, "ids": np.array("a")}, "ids should be a list of names"),
    "ids of two dimensions": ({"X": X, "ids": np.full((30, 2), "a")}, "a list of names"),
    "too few ids": ({"X": X, "ids": np.array(["a"])}, "ids should have 30 names, got 1"),
    "two channels of one name": ({"X": X, "channels": np.array(["a", "a"])}, "different names"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_arrays_that_cannot_be_used_give_one_line(tmp_path, name):
    arrays, message = REFUSED[name]
    np.savez(tmp_path / "a.npz", **arrays)
    assert re.search(message, refused(tmp_path / "a.npz"))


def npy(shape, dtype="<f8", data=b"", order=False):
    """A file with whatever its header says."""
    head = f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def packed(method=zipfile.ZIP_STORED, **members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return file.getvalue()


def changed(content, at_start, at_end, value):
    """An archive with a byte changed in the head of its first file, and in the list at its end."""
    found = bytearray(content)
    found[at_start] = value
    found[content.rindex(b"PK\x01\x02") + at_end] = value
    return bytes(found)


SMALL = packed(X=npy("(3, 4)", data=b"\0" * 96))
LARGE = packed(X=npy("(3, 50)", data=bytes(range(150)) * 8))
DAMAGED = {
    "nothing": b"",
    "text": b"1,2,3\n",
    "a pickle": pickle.dumps([1, 2]),
    "a promise of 10^12 numbers": npy("(1000000000000,)"),
    "a promise of 10^30 numbers": npy("(10**30,)".replace("10**30", str(10**30))),
    "negative": npy("(-1,)"),
    "twice negative": npy("(-5, -5)", data=b"\0" * 200),
    "true": npy("(True,)", data=b"\0" * 8),
    "a broken number": npy("(1.5,)"),
    "nothing, often": npy("(1000000000000,)", "|V0"),
    "empty words, often": npy("(1000000000000,)", "<U0"),
    "no kind": npy("(1,)", "<q9"),
    "code": npy("(__import__('os').getpid(),)"),
    "brackets": b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000,
    "a long header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 10**6) + b" " * 10**6,
    "another version": npy("(1,)").replace(b"Y\x01", b"Y\x09"),
    "an archive's beginning": b"PK\x03\x04 no archive",
    "a cut archive": LARGE[:-80],
    "half an archive": LARGE[: len(LARGE) // 2],
    "changed bytes": LARGE.replace(bytes(range(20, 40)), b"\xff" * 20),
    "no array": packed(X=b"hello"),
    "a folder": packed(a__X=npy("(1,)", data=b"\0" * 8)),
    "two arrays of one name": packed(**{"X": SMALL, "X.npy": SMALL}),
    "a promise in an archive": packed(X=npy("(1000000000000,)")),
    "no characters": packed(X=npy("(2,)", "<U1", b"\xff" * 8)),
    "encrypted": changed(SMALL, 6, 8, 1),
    "another method": changed(SMALL, 8, 10, 99),
}


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_of_arrays_give_one_line(tmp_path, name, suffix):
    refused(write(tmp_path, DAMAGED[name], "a" + suffix))


def test_arrays_of_other_kinds_are_read(tmp_path):
    expected = np.arange(12.0).reshape(3, 4, 1)
    for array in (
        expected[..., 0].astype(">f4"),
        np.asfortranarray(expected),
        expected.astype("u1"),
    ):
        np.save(tmp_path / "a.npy", array)
        np.testing.assert_array_equal(read(tmp_path / "a.npy").values, expected.reshape(12, 1))
    np.savez_compressed(tmp_path / "a.npz", X=X > 0, y=np.array([b"a", b"b"] * 15))
    assert read(tmp_path / "a.npz").target.classes == ("a", "b")
    write(tmp_path, packed(zipfile.ZIP_LZMA, X=npy("(3, 50)", data=b"\0" * 1200)), "b.npz")
    assert read(tmp_path / "b.npz").lengths.tolist() == [50] * 3


def test_numbers_that_no_float_holds_are_missing(tmp_path):
    wide = X.astype(np.longdouble)
    wide[0, 0, 0] = np.longdouble("1e999") if np.finfo(np.longdouble).max > 1e308 else np.inf
    wide[0, 1, 0] = -1e200
    np.savez(tmp_path / "a.npz", X=wide, y=np.where(Y, np.inf, np.arange(30) / 7))
    found = read(tmp_path / "a.npz")
    assert np.isnan(found.values[:2, 0]).all()
    assert np.isnan(found.target.values[1::2]).all()
    assert X.dtype == np.float64
    values = X.copy()
    values[0, 0, 0] = 1e300
    from_arrays(values)
    assert values[0, 0, 0] == 1e300  # people's own arrays stay as they are


def test_lists_of_every_kind_are_refused_in_one_line():
    for wrong in (
        [],
        [[]],
        5,
        [5],
        [[1, 2], [[3, 4], [5, 6]]],
        [["a"]],
        [None],
        [[1j]],
        [np.zeros((1, 1, 1))],
    ):
        with pytest.raises(SequencesError):
            from_arrays(wrong)
    for target in (5, [[1, [2]], [3, 4]], [[1], [2]], [{}, ()], [1], np.zeros((2, 2, 2))):
        with pytest.raises(SequencesError):
            from_arrays([[1.0, 2.0], [3.0, 4.0]], target)
    assert from_arrays([[1.0], [2.0]], [None, 0.5]).target.classes == ()
    assert from_arrays([[1.0], [2.0]], [None, "nan"]).target.classes == ("nan",)


HEAD = "@problemName p\n@timeStamps false\n@univariate true\n@classLabel true a b\n@data\n"
LINES = "".join(f"{i},2,3,{i % 3}:{'ab'[i % 2]}\n" for i in range(20))
TS_REFUSED = {
    "nothing": ("", "no line @data"),
    "no data": (HEAD.replace("@data\n", ""), "no line @data"),
    "no line @data": (HEAD.replace("@data\n", "") + LINES, "neither a header nor below @data"),
    "no sequence": (HEAD, "no sequence below @data"),
    "a class that is not listed": (HEAD + LINES + "1,2,3,4:z\n", "class .z., not one of"),
    "no class": (HEAD + LINES + "1,2,3,4\n", "line 26 of .* should end in a colon"),
    "channels of unequal length": (HEAD + LINES + "1,2:1:a\n", "line 26 of .* unequal length"),
    "more channels": (HEAD + LINES + "1,2:1,2:a\n", r"equally many channels, got \[1, 2\]"),
    "other dimensions": ("@dimensions 3\n" + HEAD + LINES, "@dimensions says 3"),
    "another length": ("@equalLength true\n" + HEAD + LINES + "1,2:a\n", "as @equalLength says"),
    "time stamps": (HEAD.replace("s false", "s true") + "(0,1),(1,2):a\n", "has time stamps"),
    "time stamps unsaid": (HEAD + "(0,1),(1,2):a\n", "line 6 of .* cannot be read"),
    "words": (HEAD + LINES + "1,x,3:a\n", "line 26 of .* cannot be read"),
    "underscores": (HEAD + LINES + "1,2_0,3:a\n", "line 26 of .* cannot be read"),
    "terminal escapes": (HEAD + "\x1b[31m:a\n", "line 6 of .* cannot be read"),
    "no flag": (HEAD.replace("true a b", "a b") + LINES, "cannot be read"),
    "a target of words": ("@targetlabel true\n@data\n1,2:a\n", "is not a number"),
    "utf-16": ((HEAD + LINES).encode("utf-16"), "neither a header"),
    "zeros": ((HEAD + LINES).replace("3", "\0"), "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", TS_REFUSED)
def test_a_ts_file_that_cannot_be_used_gives_one_line(tmp_path, name):
    content, message = TS_REFUSED[name]
    content = content if isinstance(content, bytes) else content.encode()
    assert re.search(message, refused(write(tmp_path, content, "a.ts")))


def test_ts_files_with_gaps_comments_and_other_letters(tmp_path):
    noted = HEAD.replace("a b", "é è").encode("latin-1")
    lines = LINES.replace("a", "é").replace("b", "è").replace(",2,", ",?,").encode("latin-1")
    found = read(write(tmp_path, b"# \xff\n@\n" + noted + b"# more\n" + lines, "a.ts"))
    assert found.target.classes == ("\\xe8", "\\xe9")
    assert np.isnan(found.values).sum() == 20
    assert read(tmp_path / "a.ts", encoding="latin-1").target.classes == ("è", "é")
    unknown = (HEAD + LINES.replace(":a", ":?")).replace("\n", "\r").encode()
    found = read(write(tmp_path, gzip.compress(unknown), "a.ts.gz"))
    assert (found.target.classes, np.isnan(found.target.values).sum()) == (("b",), 10)
