"""Files that do not fit into memory are refused before they are read, and others are not."""

import subprocess
import sys

import numpy as np
import pytest

from rda.sequences import Roles, SequencesError, memory, read, tables, ts_files
from rda.sequences.dataset import from_arrays
from rda.sequences.preparing import prepared_for

MB = 1 << 20


@pytest.fixture
def limited(monkeypatch):
    """Sets how much memory there seems to be."""

    def limit(size):
        monkeypatch.setattr(memory, "available", lambda: float(size))

    return limit


def table(path, rows, columns=8):
    row = ",".join(["1.25"] * columns) + "\n"
    path.write_text(",".join(f"c{i}" for i in range(columns)) + "\n" + row * rows)
    return path


def test_a_table_is_refused_by_its_first_rows(tmp_path, limited, monkeypatch):
    path = table(tmp_path / "a.csv", 20_000)
    limited(100 * MB)
    assert len(read(path).values) == 20_000
    monkeypatch.setattr(tables, "BLOCK", 1 << 16)
    seen = []
    monkeypatch.setattr(
        tables, "require_rows", lambda *a: (seen.append(a), memory.require_rows(*a))
    )
    limited(1 * MB)
    with pytest.raises(
        SequencesError, match=r"needs about \d MB of memory, and 1 MB are free: take"
    ):
        read(path)
    assert len(seen) == 1


def test_rows_that_grow_shorter_are_noticed_later(limited):
    limited(10 * MB)
    memory.require_rows(1000, 0.5, 100, "a")
    with pytest.raises(SequencesError, match="a needs about"):
        memory.require_rows(1000, 0.001, 100, "a")
    with pytest.raises(SequencesError, match="a needs about"):
        memory.require_rows(200_000, 1.0, 100, "a")
    memory.require_rows(50, 0.0005, 100, "a")  # the first rows may be short: not yet certain


def test_words_that_are_all_different_are_counted_too(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("x,z\n" + "".join(f"word {i},1\n" for i in range(1000)))
    left = iter([100 * MB] * 2 + [0] * 9)
    monkeypatch.setattr(memory, "available", lambda: float(next(left)))
    with pytest.raises(SequencesError, match="and 0 MB are free"):
        read(path)


def test_arrays_are_refused_by_what_they_promise(tmp_path, limited):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((100, 50_000)))
    assert (tmp_path / "a.npz").stat().st_size < MB
    limited(20 * MB)
    with pytest.raises(SequencesError, match=r"X of .* needs about 76 MB of memory"):
        read(tmp_path / "a.npz")


def test_parquet_files_are_refused_by_their_rows_and_columns(tmp_path, limited):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"c{i}": np.zeros(100_000) for i in range(10)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < MB
    limited(16 * MB)
    with pytest.raises(SequencesError, match="needs about 24 MB of memory"):
        read(tmp_path / "a.parquet")
    assert len(read(tmp_path / "a.parquet", Roles(features=("c0",))).values) == 100_000


@pytest.mark.parametrize("block", [1 << 16, 1 << 30])
def test_ts_files_are_refused_by_their_first_lines_or_their_last(
    tmp_path, limited, monkeypatch, block
):
    monkeypatch.setattr(ts_files, "BLOCK", block)
    (tmp_path / "a.ts").write_text("@data\n" + (",".join("123456789") + "\n") * 20_000)
    limited(1 * MB)
    with pytest.raises(SequencesError, match=r"needs about \d MB of memory"):
        read(tmp_path / "a.ts")


def test_inputs_are_refused_before_they_are_made(limited):
    sequences = from_arrays(np.random.default_rng(0).normal(size=(100, 100, 10)))
    preparation = prepared_for(sequences)
    limited(1000)
    with pytest.raises(SequencesError, match="what a unit reads of the sequences needs"):
        preparation.apply(sequences.values)


def test_what_is_free_is_known_here(tmp_path, monkeypatch):
    assert memory.available() > 0
    for name in ("STATUS", "MEMORY", "GROUPS"):
        monkeypatch.setattr(memory, name, tmp_path / "nothing")
    memory._available.cache_clear()
    assert memory.available() == float("inf")
    memory._available.cache_clear()


GROUPS = {
    "0::/box\n": ("box", "memory.max", "memory.current", "inactive_file 100\nactive_file 50\n"),
    "0::/of/the/host\n": ("", "memory.max", "memory.current", "inactive_file 150\n"),
    "4:cpu,memory:/box\n": (
        "memory/box", "memory.limit_in_bytes", "memory.usage_in_bytes",
        "inactive_file 1\ntotal_inactive_file 150\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", GROUPS)
def test_limits_of_control_groups_count(tmp_path, monkeypatch, line):
    folder, limit, usage, cached = GROUPS[line]
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name, content in {limit: "1000\n", usage: "500\n", "memory.stat": cached}.items():
        (tmp_path / folder / name).write_text(content)
    (tmp_path / "groups").write_text("3:pids:/\n" + line)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "GROUP_FOLDERS", tmp_path)
    assert list(memory._by_groups()) == [650.0]
    (tmp_path / folder / limit).write_text("max\n")
    assert list(memory._by_groups()) == []


CHILD = """
import resource, sys
from rda.cli import main
resource.setrlimit(resource.{limit}, (2 << 30, resource.RLIM_INFINITY))
code = main(["train", "--data", sys.argv[1], "RDA", "--steps", "2", "--runs-dir", sys.argv[2]])
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold these limits")
@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_five_gigabytes_on_two_give_one_line_without_being_read(tmp_path, limit):
    path = table(tmp_path / "a.csv", 100_000)
    with path.open("r+b") as file:
        file.truncate(5 << 30)  # the rest has no room on the disk and is never looked at
    child = [sys.executable, "-c", CHILD.format(limit=limit), str(path), str(tmp_path / "runs")]
    done = subprocess.run(child, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "GB of memory" in done.stderr
    assert int(done.stdout) < 500 * 1024  # KB, at most
