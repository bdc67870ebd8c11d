"""The conditions of other machines name tests that exist, and no failure counts as a success."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "matrix.py"


@pytest.fixture
def matrix(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import matrix

    return matrix


def answer(*arguments):
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True)


def test_every_condition_runs_tests_that_exist(matrix):
    for condition in matrix.CONDITIONS.values():
        assert all((ROOT / name.partition("::")[0]).exists() for name in condition.tests)
    for option in matrix.WITHOUT_KERNELS:
        path, _, name = option.removeprefix("--deselect=").partition("::")
        assert f"def {name}(" in (ROOT / path).read_text()


def test_the_list_says_what_this_machine_cannot_emulate(matrix):
    told = answer("--list").stdout.splitlines()
    assert len(told) == len(matrix.CONDITIONS)
    for line, (name, condition) in zip(told, matrix.CONDITIONS.items(), strict=True):
        assert line.startswith(f"{name} ")
        assert ("not possible here" in line) == (condition.obstacle() is not None)


def test_an_unknown_name_is_refused():
    done = answer("sse", "mmx")
    assert done.returncode == 2
    assert "no condition 'mmx'" in done.stderr


@pytest.mark.parametrize(
    ("counts", "passed", "is_right"),
    [
        ('tests="9" failures="0" errors="0" skipped="2"', 7, True),
        ('tests="9" failures="1" errors="2" skipped="0"', 6, False),
        ('tests="0" failures="0" errors="0" skipped="0"', 0, False),
    ],
)
def test_a_report_is_read(matrix, tmp_path, counts, passed, is_right):
    (tmp_path / "report.xml").write_text(f"<testsuites><testsuite {counts}/></testsuites>")
    result = matrix.read(tmp_path / "report.xml", 1.0, "see there")
    assert result.passed == passed
    assert (not result.remark) == is_right


def test_tests_that_never_ended_are_a_failure(matrix, tmp_path):
    assert "did not finish" in matrix.read(tmp_path / "nothing", 1.0, "see there").remark


def test_vectors_that_were_not_chosen_are_a_failure(matrix, monkeypatch):
    monkeypatch.setattr(matrix, "PROBE", "print('AVX2', 32)")
    assert not matrix.probe(matrix.CONDITIONS["avx2"], dict(os.environ))
    assert "expected ['DEFAULT', '16']" in matrix.probe(matrix.CONDITIONS["sse"], dict(os.environ))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_one_core_is_given_back(matrix):
    before = os.sched_getaffinity(0)
    with matrix.one_core({}):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_no_compiler_is_found_where_all_are_hidden(matrix):
    code = "from rda.scan.cpu import build; build.compiler()"
    with matrix.without_compilers({**os.environ, "CXX": ""}) as environment:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=ROOT
        )
    assert "no C++ compiler found" in done.stderr


@pytest.mark.parametrize(("code", "failed"), [(0, 0), (1, 1)])
def test_the_demo_is_judged_by_its_exit_code(matrix, tmp_path, monkeypatch, code, failed):
    commands = []

    def run(command, **options):
        commands.append(command)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(matrix.subprocess, "run", run)
    result = matrix.run(matrix.Condition("as it is"), "1", True, tmp_path)
    assert (result.passed, result.failed) == (1 - failed, failed)
    assert bool(result.remark) == bool(failed)
    assert commands[0][1:4] == ["-m", "rda", "demo"]
