"""Run the tests under the conditions of other machines, as far as this one can emulate them.

    .venv/bin/python tools/matrix.py                 all conditions that are possible here
    .venv/bin/python tools/matrix.py sse busy        only these
    .venv/bin/python tools/matrix.py --demo          `rda demo` under each of them, not the tests
    .venv/bin/python tools/matrix.py --list          the names, and what is not possible here

A machine can only emulate less than it has: a CPU without AVX-512 cannot run tests for it. Ends
with a table of tests passed, failed and skipped. The exit code is 1 if a condition failed, 2 if a
named one is not possible here.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]

EVERYTHING = ("tests",)
NUMERICS = (
    *("tests/scan/test_engines.py", "tests/scan/test_dispatch.py", "tests/test_conventions.py"),
    *("tests/test_layers.py", "tests/test_cells.py", "tests/test_repeated.py"),
    "tests/test_catalogue.py",
    *("tests/test_gradients.py", "tests/test_extreme_logits.py", "tests/test_equations.py"),
    *("tests/test_doctor.py", "tests/training/test_loop.py::TestLearning"),
)
WITHOUT_KERNELS = tuple(
    f"--deselect=tests/test_gradients.py::{name}"
    for name in (
        "test_scan_with_ragged_lengths_and_a_given_state",
        "test_layer_with_packed_input_and_a_given_state",
    )
)
"""The reference alone in float64, beside finite differences: no kernel of ours takes part, and what
other vectors change in torch's is far below the tolerance."""
PROCESSES = (
    *("tests/commands/test_cli.py", "tests/data", "tests/scan/test_build.py"),
    *("tests/test_benchmarks.py", "tests/test_distributed.py", "tests/training/test_killing.py"),
)

PROBE = """
import torch
from rda.scan.cpu.build import BuildError
from rda.scan.cpu.native import Native
from rda.symbolic.derived import Derived
from rda.units import RDA
try:
    vectors = Native(Derived(RDA()), torch.float32).library.rda_vector_bytes()
except BuildError:
    vectors = 0
print(torch.backends.cpu.get_cpu_capability().split()[-1], vectors)
"""
"""Prints the vector instructions of torch's kernels, and the bytes of a vector in ours."""

Surroundings = Callable[[dict[str, str]], contextlib.AbstractContextManager[dict[str, str]]]


@dataclass(frozen=True)
class Condition:
    """How another machine differs from this one, and the tests for which that matters."""

    description: str
    tests: tuple[str, ...] = EVERYTHING
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    """Further options of pytest."""
    expected: tuple[str, int] | None = None
    """What the probe must print, for conditions that choose vector instructions."""
    obstacle: Callable[[], str | None] = lambda: None
    """Why this machine cannot emulate it, or None."""
    surroundings: Surroundings = contextlib.nullcontext
    """A context around the tests; takes and gives their environment."""


class Result(NamedTuple):
    passed: int
    failed: int
    skipped: int
    seconds: float
    remark: str = ""


def cpu_flags() -> set[str]:
    """The features of this CPU as Linux names them."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


def needs(*flags: str) -> Callable[[], str | None]:
    def obstacle() -> str | None:
        missing = sorted(set(flags) - cpu_flags())
        return f"this CPU has no {', '.join(missing)}" if missing else None

    return obstacle


def needs_program(name: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(name) else f"there is no {name} here"


def vectors(torch_level: str, onednn: str, mkl: str, march: str) -> dict[str, str]:
    """The environment in which torch, oneDNN, MKL and our kernel use at most these vectors."""
    return {
        "ATEN_CPU_CAPABILITY": torch_level,
        "ONEDNN_MAX_CPU_ISA": onednn,
        "MKL_ENABLE_INSTRUCTIONS": mkl,
        "RDA_CPU_FLAGS": f"-march={march}",
    }


@contextlib.contextmanager
def one_core(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Child processes inherit the cores of this one."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield environment
    finally:
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def busy_machine(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Two endless loops for each core."""
    loop = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(loop) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        yield environment
    finally:
        for process in loops:
            process.kill()
            process.wait()


@contextlib.contextmanager
def without_compilers(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """A PATH with links to all programs but the compilers."""
    with tempfile.TemporaryDirectory() as folder:
        for directory in reversed(environment["PATH"].split(os.pathsep)):
            for program in Path(directory).glob("*"):
                link = Path(folder, program.name)
                link.unlink(missing_ok=True)
                if not program.name.startswith(("c++", "clang")) and "g++" not in program.name:
                    link.symlink_to(program.absolute())
        yield {**environment, "PATH": folder}


CONDITIONS = {
    "full": Condition("all tests, on this machine as it is"),
    "avx512": Condition(
        "vectors of 512 bits",
        NUMERICS,
        vectors("avx512", "AVX512_CORE", "AVX512", "x86-64-v4"),
        options=WITHOUT_KERNELS,
        expected=("AVX512", 64),
        obstacle=needs("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    ),
    "avx2": Condition(
        "vectors of 256 bits",
        NUMERICS,
        vectors("avx2", "AVX2", "AVX2", "x86-64-v3"),
        options=WITHOUT_KERNELS,
        expected=("AVX2", 32),
        obstacle=needs("avx2", "fma", "bmi2"),
    ),
    "sse": Condition(
        "vectors of 128 bits: any x86-64",
        NUMERICS,
        vectors("default", "SSE41", "SSE4_2", "x86-64"),
        options=WITHOUT_KERNELS,
        expected=("DEFAULT", 16),
        obstacle=needs("sse2"),
    ),
    "one-core": Condition("a single core", PROCESSES, surroundings=one_core),
    "busy": Condition("two endless loops on each core", PROCESSES, surroundings=busy_machine),
    **{
        f"order-{seed}": Condition(
            f"all tests in random order, seed {seed}", options=("--random-order", str(seed))
        )
        for seed in (1, 2, 3)
    },
    **{
        name: Condition(
            f"the kernel compiled by {program}",
            (*NUMERICS, "tests/scan/test_build.py"),
            {"CXX": program},
            obstacle=needs_program(program),
        )
        for name, program in {"gcc": "g++", "clang": "clang++"}.items()
    },
    "no-compiler": Condition(
        "no C++ compiler: the fallback engine",
        (*NUMERICS, *PROCESSES),
        surroundings=without_compilers,
    ),
}


# One level below what this CPU has.
CONDITIONS["lower-vectors"] = CONDITIONS["sse" if CONDITIONS["avx512"].obstacle() else "avx2"]


def run(condition: Condition, jobs: str, demo: bool, folder: Path) -> Result:
    """The tests, or the demo, under this condition; the output goes to a file in `folder`."""
    started = time.perf_counter()
    environment = {**os.environ, "RDA_CACHE": str(folder.parent / "cache")}
    # A condition chooses all of these, or leaves this machine's own.
    for name in ("CXX", *vectors("", "", "", "")):
        environment.pop(name, None)
    with condition.surroundings({**environment, **condition.environment}) as ready:
        remark = probe(condition, ready)
        if remark:
            return Result(0, 0, 0, time.perf_counter() - started, remark)
        report, log = folder / "report.xml", folder / "output.txt"
        if demo:
            command = [sys.executable, "-m", "rda", "demo", "--runs-dir", str(folder / "runs")]
        else:
            command = [sys.executable, "-m", "pytest", "-n", jobs, "--dist", "worksteal"]
            command += ["-p", "no:cacheprovider", f"--junitxml={report}"]
            command += [*condition.options, *condition.tests]
        with log.open("w") as file:
            done = subprocess.run(command, cwd=ROOT, env=ready, stdout=file, stderr=file)
    seconds = time.perf_counter() - started
    if demo:
        failed = done.returncode != 0
        return Result(int(not failed), int(failed), 0, seconds, f"see {log}" if failed else "")
    return read(report, seconds, f"see {log}")


def probe(condition: Condition, environment: dict[str, str]) -> str:
    """Why the chosen vectors are not those that run, or nothing."""
    if condition.expected is None:
        return ""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    found = done.stdout.split() or done.stderr.splitlines()[-1:]
    expected = list(map(str, condition.expected))
    return "" if found == expected else f"expected {expected}, found {found}"


def read(report: Path, seconds: float, place: str) -> Result:
    """What pytest reported."""
    try:
        (suite,) = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return Result(0, 0, 0, seconds, f"pytest did not finish, {place}")
    total, failures, errors, skipped = (
        int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    remark = place if failed or not total else ""
    return Result(total - failed - skipped, failed, skipped, seconds, remark)


def table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="CONDITION", help="(default: all possible)")
    parser.add_argument("--list", action="store_true", help="show the conditions and exit")
    parser.add_argument("--demo", action="store_true", help="run the demo instead of the tests")
    parser.add_argument("--jobs", default="auto", help="test processes (default: one for a core)")
    asked = parser.parse_args()
    for name in asked.names:
        if name not in CONDITIONS:
            parser.error(f"no condition {name!r}: there are {', '.join(CONDITIONS)}")
        if reason := CONDITIONS[name].obstacle():
            parser.error(f"{name} is not possible here: {reason}")
    return asked


def listing() -> str:
    rows = []
    for name, condition in CONDITIONS.items():
        reason = condition.obstacle()
        rows.append((name, condition.description, f"not possible here: {reason}" if reason else ""))
    return table(rows)


def main() -> int:
    asked = parse()
    if asked.list:
        print(listing())
        return 0
    chosen = {name: CONDITIONS[name] for name in asked.names or CONDITIONS}
    if not asked.names:
        del chosen["lower-vectors"]  # it is one of the others
    if asked.demo:
        chosen = {name: one for name, one in chosen.items() if not name.startswith("order-")}
    logs = Path(tempfile.mkdtemp(prefix="rda-matrix-"))
    rows = [("condition", "passed", "failed", "skipped", "seconds", "")]
    right = True
    for name, condition in chosen.items():
        reason = condition.obstacle()
        if reason:
            rows.append((name, "-", "-", "-", "-", f"not possible here: {reason}"))
            continue
        print(f"{name}: {condition.description} ...", file=sys.stderr, flush=True)
        folder = logs / name
        folder.mkdir()
        result = run(condition, asked.jobs, asked.demo, folder)
        right = right and not result.remark
        counts = (result.passed, result.failed, result.skipped)
        rows.append((name, *map(str, counts), f"{result.seconds:.0f}", result.remark))
    print(table(rows))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
