"""The cache of compiled code: what is kept in it, for whom, and what is never taken from it."""

import hashlib
import os
import platform
import subprocess
import time
from pathlib import Path

import pytest
import torch

from rda import files
from rda.cli import main
from rda.scan.cpu import build, native
from rda.scan.cuda import nvrtc
from rda.symbolic.derived import Derived
from rda.units import RDA

X86 = platform.machine() in ("x86_64", "AMD64")
OURS, PLANTED = 16, 7
"""What `rda_vector_bytes` of two tiny libraries returns."""
SOURCE = "// what the compilers of these tests do not read"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of this user's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("RDA_CACHE", str(folder))
    return folder


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A cache that others can write, and a home of this user's own."""
    files._warn_once.cache_clear()
    found = files.weakness

    def look(places, user, *, ends=True):
        # The folder of each test lies in one that nobody else can enter: open it.
        return found([(owner, mode | 0o011) for owner, mode in places], user, ends=ends)

    monkeypatch.setattr(files, "weakness", look)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setenv("RDA_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Two tiny libraries, by what they return."""
    folder = tmp_path_factory.mktemp("libraries")
    found = {}
    for value in (OURS, PLANTED):
        text, found[value] = folder / f"{value}.cpp", folder / f"{value}.so"
        text.write_text(f'extern "C" int rda_vector_bytes() {{ return {value}; }}')
        command = [*build.compiler(), "-shared", "-fPIC", text, "-o", found[value]]
        subprocess.run(command, check=True)
    return found


class Compiler:
    """Stands in for a compiler: quick, counts its calls, and fails when it is told to."""

    def __init__(self, path: Path, result: Path) -> None:
        self.path, self.result, self.calls_file = path, result, path.with_suffix(".calls")
        self.succeed()

    def succeed(self) -> None:
        copy = 'while [ $# -gt 1 ]; do [ "$1" = -o ] && cp "$RESULT" "$2"; shift; done'
        self._write(f"RESULT={self.result}; {copy}")

    def fail(self) -> None:
        self._write("echo 'kernel.cpp:1: error: no idea' >&2; exit 1")

    def _write(self, action: str) -> None:
        self.path.write_text(f"#!/bin/sh\necho >> {self.calls_file}\n{action}\n")
        self.path.chmod(0o755)
        os.utime(self.path, (1, 1))  # the same compiler to the cache, which looks at the time

    @property
    def calls(self) -> int:
        return len(self.calls_file.read_text()) if self.calls_file.exists() else 0


@pytest.fixture
def compiler(tmp_path, libraries, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "compiler"))
    # Files of one size and time are one compiler: only what it does differs between tests.
    monkeypatch.setattr(build, "_version", lambda program: "one version")
    return Compiler(tmp_path / "compiler", libraries[OURS])


@pytest.mark.needs_compiler
@pytest.mark.skipif(not X86, reason="names instruction sets of x86-64")
def test_flags_of_the_user_choose_the_instruction_set(cache, monkeypatch):
    monkeypatch.setenv("RDA_CPU_FLAGS", "-O0 -march=x86-64")
    assert build.load(native.source(Derived(RDA()), torch.float32)).rda_vector_bytes() == 16
    monkeypatch.setenv("RDA_CPU_FLAGS", "-O0")
    build.load(native.source(Derived(RDA()), torch.float32))
    assert len(list(cache.glob("*.so"))) == 2  # neither is taken for the other


def test_the_doctor_tells_the_flags(monkeypatch, capsys):
    monkeypatch.setattr(native, "compiled", lambda *of: "not compiled in this test")
    monkeypatch.setenv("RDA_CPU_FLAGS", "-DTOLD")
    assert main(["doctor", "--units", "8"]) == 0
    assert "-march=native -DTOLD\n" in capsys.readouterr().out


@pytest.mark.needs_compiler
@pytest.mark.parametrize("variable", ["CXX", "RDA_CPU_FLAGS"])
def test_a_quote_that_is_never_closed_is_a_reason_and_no_crash(variable, cache, monkeypatch):
    monkeypatch.setenv(variable, 'g++ "')
    with pytest.raises(build.BuildError, match=rf"\${variable} is .*No closing quotation"):
        build.load(SOURCE)


@pytest.mark.parametrize("damage", [b"", b"0", b"\xff\xfe", b"\xff" * 64], ids=repr)
def test_a_damaged_checksum_is_compiled_again(damage, cache, compiler):
    build.load(SOURCE)
    (digest,) = cache.glob("*.sha256")
    digest.write_bytes(damage)
    assert build.load(SOURCE).rda_vector_bytes() == OURS
    assert compiler.calls == 2
    build.load(SOURCE)
    assert compiler.calls == 2


def test_a_failed_compile_is_remembered_with_its_reason(cache, compiler):
    compiler.fail()
    with pytest.raises(build.BuildError, match="error: no idea"):
        build.load(SOURCE)
    attempts = compiler.calls
    with pytest.raises(build.BuildError, match=r"error: no idea \(.*remembered.*`rda doctor`"):
        build.load(SOURCE)
    assert compiler.calls == attempts


def test_a_remembered_failure_is_tried_again_when_something_changed(cache, compiler, monkeypatch):
    compiler.fail()
    with pytest.raises(build.BuildError):
        build.load(SOURCE)
    compiler.succeed()
    monkeypatch.setattr(build, "_version", lambda program: "another version")
    assert build.load(SOURCE).rda_vector_bytes() == OURS
    monkeypatch.setattr(build, "_version", lambda program: "one version")
    with pytest.raises(build.BuildError, match="remembered"):
        build.load(SOURCE)
    (failure,) = cache.glob("*.failed")
    a_day_ago = time.time() - build.SECONDS_TO_REMEMBER_FAILURE
    os.utime(failure, (a_day_ago, a_day_ago))
    assert build.load(SOURCE).rda_vector_bytes() == OURS
    assert not list(cache.glob("*.failed"))


def test_the_doctor_tells_a_remembered_failure_and_tries_again(cache, compiler, capsys):
    compiler.fail()
    with pytest.raises(build.BuildError):
        build.load(SOURCE)
    attempts = compiler.calls
    native.compiled.cache_clear()
    try:
        assert main(["doctor", "--units", "8"]) == 0
    finally:
        native.compiled.cache_clear()
    told = capsys.readouterr().out
    assert "failed before: " in told
    assert "error: no idea" in told
    assert compiler.calls > attempts


def test_what_killed_compilers_left_is_swept(cache, compiler):
    left, fresh = cache / "compiling-left", cache / "compiling-fresh"
    for folder in (left, fresh):
        folder.mkdir(parents=True)
        (folder / "kernel.cpp").write_text("")
    long_ago = time.time() - build.SECONDS_UNTIL_ABANDONED - 1
    os.utime(left, (long_ago, long_ago))
    build.load(SOURCE)
    assert not left.exists()
    assert fresh.exists()  # another process may still be at work there


def test_a_umask_that_lets_a_group_write_does_not_compile_in_every_process(cache, compiler):
    before = os.umask(0o002)
    try:
        build.load(SOURCE)
        build.load(SOURCE)
    finally:
        os.umask(before)
    assert compiler.calls == 1


def test_a_library_that_another_user_planted_is_not_loaded(shared, compiler, libraries, tmp_path):
    """Under the right name, with the right checksum, in a cache that all can write."""
    own = tmp_path / "home" / ".cache" / "rda-torch"
    with pytest.warns(files.CacheWarning, match="other users"):
        build.load(SOURCE)
    (name,) = (path.name for path in own.glob("*.so"))
    content = libraries[PLANTED].read_bytes()
    (shared / name).write_bytes(content)
    (shared / name).with_suffix(".sha256").write_text(hashlib.sha256(content).hexdigest())
    assert build.load(SOURCE).rda_vector_bytes() == OURS
    assert compiler.calls == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_a_planted_library_that_stayed_in_ones_own_cache_is_replaced(cache, compiler, libraries):
    build.load(SOURCE)
    (library,) = cache.glob("*.so")
    content = libraries[PLANTED].read_bytes()
    library.unlink()
    library.write_bytes(content)
    library.with_suffix(".sha256").write_text(hashlib.sha256(content).hexdigest())
    os.chown(library, 12345, -1)
    assert build.load(SOURCE).rda_vector_bytes() == OURS
    assert library.stat().st_uid == 0


def test_a_lock_that_another_user_holds_hangs_nobody(shared, compiler, tmp_path):
    with pytest.warns(files.CacheWarning):
        build.load(SOURCE)
    for path in (tmp_path / "home" / ".cache" / "rda-torch").glob("*.so"):
        path.unlink()
        with files.waiting_lock(shared / path.with_suffix(".lock").name, print):
            assert build.load(SOURCE).rda_vector_bytes() == OURS


@pytest.fixture
def gpu_compiles(monkeypatch):
    """Stands in for NVRTC; the list grows with each compile."""
    done = []
    monkeypatch.setattr(nvrtc, "_version", lambda: "12.9")
    monkeypatch.setattr(nvrtc, "_compile", lambda source, options: done.append(source) or b"code")
    return done


def gpu_code():
    return nvrtc.compiled("source", {"UNITS": 64}, (9, 0))


def test_compiled_gpu_code_comes_from_the_cache(cache, gpu_compiles):
    before = os.umask(0o002)
    try:
        assert gpu_code() == gpu_code() == b"code"
    finally:
        os.umask(before)
    assert len(gpu_compiles) == 1


def test_gpu_code_that_another_user_planted_is_not_run(shared, gpu_compiles, tmp_path):
    with pytest.warns(files.CacheWarning, match="other users"):
        gpu_code()
    (path,) = (tmp_path / "home" / ".cache" / "rda-torch").glob("*.cubin")
    planted = hashlib.sha256(b"theirs").digest() + b"theirs"
    (shared / path.name).write_bytes(planted)
    assert gpu_code() == b"code"
    path.write_bytes(planted)
    path.chmod(0o666)
    assert gpu_code() == b"code"


def test_what_killed_writers_of_gpu_code_left_is_swept(cache, gpu_compiles):
    cache.mkdir()
    left = cache / ".cuda-0123.cubin.99.tmp"
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    gpu_code()
    assert not left.exists()


def test_the_doctor_tells_whether_the_cache_is_private(shared, monkeypatch, capsys):
    monkeypatch.setattr(native, "compiled", lambda *of: "not compiled in this test")
    assert main(["doctor", "--units", "8"]) == 0
    told = capsys.readouterr().out
    assert f"not used for code: {shared} can be written by other users (mode 1777)" in told
    shared.chmod(0o700)
    assert main(["doctor", "--units", "8"]) == 0
    assert f"cache       {shared}, private\n" in capsys.readouterr().out
