"""The cache of compiled code: what is kept in it, for whom, and what is never taken from it."""

import platform

import pytest

from rda.cli import main
from rda.scan.cpu import build, kernel

X86 = platform.machine() in ("x86_64", "AMD64")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of this user's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("RDA_CACHE", str(folder))
    return folder


@pytest.mark.needs_compiler
@pytest.mark.skipif(not X86, reason="names instruction sets of x86-64")
def test_flags_of_the_user_choose_the_instruction_set(cache, monkeypatch):
    monkeypatch.setenv("RDA_CPU_FLAGS", "-march=x86-64")
    assert build.load().rda_vector_bytes() == 16
    monkeypatch.delenv("RDA_CPU_FLAGS")
    build.load()
    assert len(list(cache.glob("*.so"))) == 2  # neither is taken for the other


def test_the_doctor_tells_the_flags(monkeypatch, capsys):
    monkeypatch.setattr(kernel, "library", lambda: "not compiled in this test")
    monkeypatch.setenv("RDA_CPU_FLAGS", "-DTOLD")
    assert main(["doctor", "--units", "8"]) == 0
    assert "-march=native -DTOLD\n" in capsys.readouterr().out


@pytest.mark.needs_compiler
@pytest.mark.parametrize("variable", ["CXX", "RDA_CPU_FLAGS"])
def test_a_quote_that_is_never_closed_is_a_reason_and_no_crash(variable, cache, monkeypatch):
    monkeypatch.setenv(variable, 'g++ "')
    with pytest.raises(build.BuildError, match=rf"\${variable} is .*No closing quotation"):
        build.load()
