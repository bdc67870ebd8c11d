"""Compiling at first use: several processes at once, broken caches, no compiler at all."""

import hashlib
import os
from pathlib import Path

import forking
import pytest
import torch

from rda.scan.cpu import build
from rda.scan.cpu.native import source
from rda.symbolic.derived import Derived
from rda.units import RDA

ROOT = Path(__file__).parents[2]
SOURCE = source(Derived(RDA()), torch.float32)
RUN = """
import warnings
warnings.simplefilter("always")
import torch, rda
layer = rda.RDA(3, 5)
output, _ = layer(torch.ones(4, 2, 3))
output.sum().backward()
from rda.functional import Choices, select
print(select("auto", torch.ones(1), Choices()).name, output.isfinite().all().item())
"""


UNOPTIMISED = "-O0"  # the code is not what is tested here, and this compiles in a fifth of the time
needs_compiler = pytest.mark.needs_compiler


def environment(cache, **changes):
    fixed = {"RDA_CACHE": str(cache), "OMP_NUM_THREADS": "1", "RDA_CPU_FLAGS": UNOPTIMISED}
    return {**os.environ, **fixed, **changes}


def start(cache, code=RUN, **changes):
    return forking.start(["-c", code], ROOT, environment(cache, **changes))


def finish(process):
    output, complaints = process.communicate()
    assert process.returncode == 0, complaints
    return output.strip(), complaints


@pytest.fixture
def hidden_compiler(tmp_path):
    """A PATH on which there is no compiler."""
    return {"PATH": str(tmp_path), "CXX": ""}


@needs_compiler
def test_five_processes_at_once_compile_once_and_all_succeed(tmp_path):
    processes = [start(tmp_path) for _ in range(5)]
    told = [finish(process) for process in processes]
    assert [output for output, _ in told] == ["cpu True"] * 5
    assert [complaints for _, complaints in told] == [""] * 5
    assert len(list(tmp_path.glob("*.so"))) == 1


@needs_compiler
def test_a_broken_cache_is_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setenv("RDA_CACHE", str(tmp_path))
    monkeypatch.setenv("RDA_CPU_FLAGS", UNOPTIMISED)
    build.load(SOURCE)
    (library,) = tmp_path.glob("*.so")
    digest, whole = library.with_suffix(".sha256"), library.read_bytes()

    def replace(path, content):
        path.unlink()  # a new file: the old one is still mapped by this process
        path.write_bytes(content)

    for damage in (
        lambda: replace(library, whole[: len(whole) // 2]),
        lambda: replace(library, b""),
        lambda: replace(digest, b"0"),
        library.unlink,
    ):
        damage()
        assert build.load(SOURCE).rda_vector_bytes() in (16, 32, 64)
        assert hashlib.sha256(library.read_bytes()).hexdigest() == digest.read_text()


@needs_compiler
def test_a_compiler_killed_half_way_leaves_nothing_that_is_taken_for_whole(tmp_path):
    """A compiler that dies after writing half a file: the next process starts afresh."""
    killer = tmp_path / "killer"
    killer.write_text(
        """#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -o ] && echo half > "$2"; shift; done
kill -9 $PPID
"""
    )
    killer.chmod(0o755)
    process = start(tmp_path / "cache", CXX=str(killer))
    process.communicate()
    assert process.returncode == -9
    assert finish(start(tmp_path / "cache")) == ("cpu True", "")


def test_without_a_compiler_the_fallback_serves_and_says_so_once(tmp_path, hidden_compiler):
    output, complaints = finish(start(tmp_path / "cache", **hidden_compiler))
    assert output == "eager True"
    assert complaints.count("EngineWarning") == 1
    assert "no C++ compiler found" in complaints


@needs_compiler
def test_a_folder_that_cannot_be_written_gives_the_fallback_and_one_line(tmp_path):
    """A folder that is a file, and (where the kernel refuses even root) a read-only one."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    for folder in (blocked / "cache", Path("/proc/self/fdinfo")):
        output, complaints = finish(start(folder))
        assert output == "eager True"
        assert complaints.count("EngineWarning") == 1
        assert "set RDA_CACHE" in complaints


@needs_compiler
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root to be another user")
def test_a_read_only_folder_of_another_user(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o555)
    # What this user may not read is imported before becoming another.
    warm = RUN.replace("RDA(3, 5)", "RDA(3, 5, engine='eager')").split("from rda.functional")[0]
    code = f"{warm}\nimport os; os.setuid(65534)\n{RUN}"
    for parent in [folder, *folder.parents]:
        if parent.stat().st_uid == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    output, complaints = finish(start(folder, code, HOME=str(folder)))
    assert output == "eager True"
    assert complaints.count("EngineWarning") == 1
    assert "Permission denied" in complaints


def test_a_compiler_that_cannot_compile_gives_the_fallback(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'kernel.cpp:1: error: no idea' >&2; exit 1\n")
    broken.chmod(0o755)
    output, complaints = finish(start(tmp_path / "cache", CXX=str(broken)))
    assert output == "eager True"
    assert "error: no idea" in complaints
    assert not list((tmp_path / "cache").glob("*.so"))


@needs_compiler
def test_a_compiler_with_options_and_a_relative_cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RDA_CACHE", ".")
    monkeypatch.setenv("CXX", f"{build.compiler()[0]} -Wall")
    monkeypatch.setenv("RDA_CPU_FLAGS", UNOPTIMISED)
    assert build.load(SOURCE).rda_vector_bytes() in (16, 32, 64)
    assert len(list(tmp_path.glob("*.so"))) == 1


def test_a_compiler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O3")
    with pytest.raises(build.BuildError, match="no-such-compiler"):
        build.compiler()


@needs_compiler
def test_a_user_without_a_home_gets_a_reason(monkeypatch):
    def lost(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RDA_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", lost)
    with pytest.raises(build.BuildError, match="set RDA_CACHE"):
        build.load(SOURCE)


@needs_compiler
def test_a_whole_cache_serves_even_where_nothing_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("RDA_CACHE", str(tmp_path))
    monkeypatch.setenv("RDA_CPU_FLAGS", UNOPTIMISED)
    build.load(SOURCE)

    def refused(path, waits):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(build, "waiting_lock", refused)
    assert build.load(SOURCE).rda_vector_bytes() in (16, 32, 64)


def test_asking_for_the_compiled_engine_without_a_compiler_raises(tmp_path, hidden_compiler):
    code = """
import torch, rda
try:
    rda.RDA(3, 5, engine="cpu")(torch.ones(4, 2, 3))
except rda.EngineUnavailableError as error:
    print(error)
"""
    output, _ = finish(start(tmp_path / "cache", code, **hidden_compiler))
    assert "engine 'cpu' cannot serve this call: no C++ compiler found" in output


def test_everything_else_passes_on_the_fallback(tmp_path, hidden_compiler):
    files = ("test_layers.py", "test_conventions.py", "test_cells.py", "test_catalogue.py")
    line = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    line += [ROOT / "tests" / name for name in files]
    code, said, _ = forking.run(line, ROOT, environment(tmp_path / "cache", **hidden_compiler))
    assert code == 0, said[-3000:]
