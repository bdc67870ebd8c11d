"""A thousand damaged files: each is read rightly or refused in one line, never a traceback."""

import contextlib
import gzip
import io
import random
import zipfile

import numpy as np
import pytest
import torch
from made_data import table_rows, waves, write_csv, write_npz, write_ts

from rda.cli import main
from rda.sequences import SequencesError, read
from rda.tasks import TaskError
from rda.tasks.own_sequences import OwnSequences

FILES = 1_000
NASTY = [
    b"", b"nan", b"inf", b"-inf", b"1e308", b"-1.7e308", b"1e400", b"9" * 400, b"5e-324", b"-0",
    b"?", b"NA", b"None", b"x", b'"', b'"a\nb"', b"\0", b"\xff", b"\xe2\x80\xa8", b"\x1b[31m",
    b"\r", b"1_0", b"0x10", b"2020-01-01", b"2020-01-01T00:00:00+14:00", b"20200101", b"9999-12-31",
    b"1,2", b"1;2", b"99999999999999999999", b"\xef\xbb\xbf", b"@data", b":", b"#", b"true", b"1e5",
    b" ", b"\x0b", b"12345678901234567890", "١٢".encode(), "é".encode("latin-1"), b"\\", b"--",
    b"(1,2)", b"@classLabel", b"slow", b"s0", b"0", b"-1",
]  # fmt: skip


def originals(folder):
    """Small good files of each kind, by the ending of their names."""
    sequences = waves(12, missing=0.05)
    write_csv(folder / "a.csv", sequences)
    write_csv(folder / "a.tsv", sequences, delimiter="\t")
    write_ts(folder / "a.ts", sequences)
    write_npz(folder / "a.npz", sequences)
    found = {path.suffix: path.read_bytes() for path in folder.iterdir()}
    found[".csv.gz"] = gzip.compress(found[".csv"])
    dates = table_rows(
        t=lambda t: f"2020-01-0{t + 1}", x=lambda i, t: ["red", "green", "blue"][t % 3]
    )
    found[".2.csv"] = b"id,t,x,y\n" + dates.encode()
    with contextlib.suppress(ModuleNotFoundError):
        import pyarrow
        from pyarrow import csv, parquet

        for name in (".csv", ".2.csv"):
            table = csv.read_csv(io.BytesIO(found[name]))
            sink = pyarrow.BufferOutputStream()
            parquet.write_table(table, sink, row_group_size=50, write_statistics=name == ".csv")
            found[name.replace("csv", "parquet")] = sink.getvalue().to_pybytes()
    return found


def damaged(content, ending, chance):
    """The content after one to four changes: of cells, of bytes, or of what is packed in it."""
    packed = chance.random() < 0.5
    if ending == ".csv.gz" and packed:
        return gzip.compress(damaged(gzip.decompress(content), ".csv", chance))
    if ending == ".npz" and packed:
        return with_damaged_arrays(content, chance)
    of_cells = ending.endswith((".csv", ".tsv", ".ts")) and chance.random() < 0.6
    found = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        if of_cells:
            separator = b"\t" if ending == ".tsv" else b","
            cells = bytes(found).split(separator)
            cells[chance.randrange(len(cells))] = chance.choice(NASTY)
            found[:] = separator.join(cells)
        else:
            change_bytes(found, chance)
    return bytes(found)


def change_bytes(found, chance):
    at, size = chance.randrange(len(found) + 1), chance.choice([1, 2, 8, 60])
    kind = chance.choice(["flip", "flip", "delete", "insert", "repeat", "overwrite", "cut"])
    if kind == "flip" and found:
        found[at % len(found)] ^= 1 << chance.randrange(8)
    elif kind == "delete":
        del found[at : at + size * chance.choice([1, 10])]
    elif kind == "insert":
        found[at:at] = chance.randbytes(size)
    elif kind == "repeat":
        found[at:at] = found[at : at + size * 10]
    elif kind == "overwrite":
        found[at : at + size] = bytes([chance.choice([0, 255])]) * size
    elif chance.random() < 0.3:
        del found[at:]


def with_damaged_arrays(content, chance):
    """An archive whose sums are right, with an array that is not."""
    found = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as good, zipfile.ZipFile(found, "w") as bad:
        names = good.namelist()
        which = chance.choice(names)
        for name in names:
            array = bytearray(good.read(name))
            if name == which:
                head = array[:128]  # where an array says what it holds
                change_bytes(head if chance.random() < 0.7 else array, chance)
                array[:128] = head
            bad.writestr(name, bytes(array))
    return found.getvalue()


def check(path):
    """Whether the file could be used; what was accepted must be fit for a unit."""
    with np.errstate(all="raise", under="ignore"):
        try:
            sequences = read(path)
            assert (sequences.lengths >= 1).all()
            assert sequences.lengths.sum() == len(sequences.values)
            assert not np.isinf(sequences.values).any()
            source = OwnSequences(data=str(path)).open(torch.device("cpu"))
            assert torch.isfinite(source._inputs).all()
            assert all(line.isprintable() for line in source.told())
        except (SequencesError, TaskError) as error:
            line = str(error)
            assert line
            assert line.isprintable()
            assert len(line) < 1000
            return False
    return True


@pytest.mark.parametrize("part", range(10))
def test_a_thousand_damaged_files(tmp_path, part):
    good = originals(tmp_path)
    used = 0
    for number in range(part, FILES, 10):
        chance = random.Random(number)
        ending = chance.choice(sorted(good))
        path = tmp_path / f"{number}{ending}"
        path.write_bytes(damaged(good[ending], ending, chance))
        try:
            used += check(path)
        except Exception as error:
            raise AssertionError(f"file {number}{ending}") from error
        path.unlink()
    assert 0 < used < FILES // 10  # of each some are damaged in places that do not matter


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run, for predictions."""
    folder = tmp_path_factory.mktemp("runs")
    write_csv(folder / "a.csv", waves(12))
    line = ["train", "--data", str(folder / "a.csv"), "GRU", "--steps", "1", "--name", "good"]
    assert outcome([*line, "--runs-dir", str(folder / "runs")]) == 0
    return folder / "runs"


def outcome(line):
    """The exit code of a command, which complains in one line or not at all."""
    told, complaint = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(complaint):
        code = main(line)
    said = complaint.getvalue()
    assert code in (0, 1, 2, 3), (line, code)
    assert said.count("\n") == (code == 2), (line, said)
    assert not said or said.startswith("rda: ")
    return code


@pytest.mark.parametrize("command", ["train", "predict"])
def test_commands_on_damaged_files(tmp_path, trained, command):
    good = originals(tmp_path)
    for number in range(30):
        chance = random.Random(number)
        ending = chance.choice(sorted(good))
        path = tmp_path / f"bad{number}{ending}"
        path.write_bytes(damaged(good[ending], ending, chance))
        line = [
            "train",
            "--data",
            str(path),
            "GRU",
            "--steps",
            "1",
            "--runs-dir",
            str(tmp_path / "r"),
        ]
        if command == "predict":
            line = ["predict", "good", "--data", str(path), "--runs-dir", str(trained)]
        outcome(line)
