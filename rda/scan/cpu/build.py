"""Compiles CPU kernels at first use, once for each machine, and keeps them in the cache.

The compiler is called directly. A kernel includes no header of torch: those alone would take
longer to compile than the whole kernel, and torch's own build system needs ninja.
"""

import contextlib
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rda.files import (
    CacheError,
    code_folder,
    exposure,
    make_private,
    sweep,
    waiting_lock,
    write_atomically,
)

COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-march=native")  # -O2: kernels half as fast
THREADS = "-fopenmp"
SECONDS_TO_COMPILE = 300
SECONDS_UNTIL_ABANDONED = 3600
"""More than both attempts to compile can take: whoever made an older folder was killed."""
SECONDS_TO_REMEMBER_FAILURE = 24 * 3600
"""Then it is tried again by itself: the reason may have been a full disk."""


class BuildError(RuntimeError):
    """The kernel cannot be compiled or loaded; the message is the reason in one line."""


def compiler() -> list[str]:
    """The C++ compiler as a command: $CXX where it is set, otherwise the first one on PATH."""
    named = _words("CXX")
    if named:
        found = shutil.which(named[0])
        if found is None:
            raise BuildError(f"$CXX is {named[0]!r}, and there is no such program here")
        return [found, *named[1:]]
    for name in COMPILERS:
        found = shutil.which(name)
        if found:
            return [found]
    raise BuildError(f"no C++ compiler found (looked for {', '.join(COMPILERS)})")


def flags() -> list[str]:
    """The compiler's options. Those in $RDA_CPU_FLAGS come last, so that they win."""
    return [*FLAGS, *_words("RDA_CPU_FLAGS")]


def _words(variable: str) -> list[str]:
    """The words of an environment variable, split as a shell would split them."""
    text = os.environ.get(variable, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BuildError(f"${variable} is {text!r}, which is no command line ({error})") from error


def load(source: str) -> ctypes.CDLL:
    """The kernel of this C++ text, from the cache or compiled now."""
    plan = _plan(source)
    library = plan.library
    if not _is_whole(library):
        _complain_again(library)
        try:
            make_private(library.parent)
            with waiting_lock(library.with_suffix(".lock"), _wait_for_another):
                if not _is_whole(library):
                    _complain_again(library)
                    _compile(plan)
        except OSError as error:
            raise BuildError(
                f"the cache folder {library.parent} cannot be used ({error.strerror or error}); "
                "set RDA_CACHE to one that can be written"
            ) from error
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise BuildError(f"the compiled kernel does not load: {error}") from error


def _wait_for_another(seconds: float) -> None:
    """Another process compiles the same: no longer than it may take for that."""
    if seconds > SECONDS_TO_COMPILE:
        raise TimeoutError(f"another process has locked it for over {SECONDS_TO_COMPILE} seconds")


def forget_failures() -> str | None:
    """Forget that compiling failed here before, so that it is tried again; returns a reason."""
    reasons = []
    with contextlib.suppress(CacheError, OSError):
        for failure in code_folder().glob("kernel-*.failed"):
            reasons.append(_failure(failure.with_suffix(".so")))
            failure.unlink()
    return next((reason for reason in reasons if reason is not None), None)


class Plan(NamedTuple):
    """What is compiled, how, and where the result belongs in the cache."""

    source: str
    command: list[str]
    library: Path


def _plan(source: str) -> Plan:
    command = [*compiler(), *flags()]
    try:
        return Plan(source, command, code_folder() / f"kernel-{_key(source, command)}.so")
    except CacheError as error:
        raise BuildError(str(error)) from error


def _key(source: str, command: list[str]) -> str:
    """A key that changes with the kernel, the compiler, its options and the CPU.

    -march=native compiles for the CPU of this machine, and a home folder may serve several.
    """
    parts = (source, *command, _version(command[0]), platform.machine(), _cpu())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _version(program: str) -> str:
    # A new compiler is a new file. Running it to ask for its version would slow every start.
    status = os.stat(program)
    return f"{os.path.realpath(program)} {status.st_size} {status.st_mtime_ns}"


def _cpu() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                return line
    return platform.processor()


def _digest_file(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _failure_file(library: Path) -> Path:
    return library.with_suffix(".failed")


def _is_whole(library: Path) -> bool:
    """Whether the file is what this user once compiled. Loading half a file would crash."""
    digest = _digest_file(library)
    try:
        if exposure(library) or exposure(digest):
            return False
        found = hashlib.sha256(library.read_bytes()).hexdigest()
        return found.encode() == digest.read_bytes()
    except OSError:
        return False


def _failure(library: Path) -> str | None:
    """Why compiling this library failed before, or None."""
    path = _failure_file(library)
    try:
        is_recent = time.time() - path.stat().st_mtime < SECONDS_TO_REMEMBER_FAILURE
        return path.read_text(errors="replace") if is_recent else None
    except OSError:
        return None


def _complain_again(library: Path) -> None:
    """Raise for a failure that is remembered: each attempt can take half a minute."""
    reason = _failure(library)
    if reason is not None:
        raise BuildError(
            f"{reason} (a failure of an earlier process, remembered for a day in "
            f"{_failure_file(library)}; `rda doctor`, another compiler or other flags try again)"
        )


def _compile(plan: Plan) -> None:
    library = plan.library
    if sys.stderr.isatty():
        print("rda: compiling the CPU engine, once (a few seconds) ...", file=sys.stderr)
    sweep(library.parent, "compiling-*", SECONDS_UNTIL_ABANDONED)
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="compiling-") as folder:
        text, built = Path(folder) / "kernel.cpp", Path(folder) / library.name
        text.write_text(plan.source)
        command = [*plan.command, THREADS, str(text), "-o", str(built)]
        problem = _run(command)
        if problem is not None:
            command.remove(THREADS)
            problem = _run(command)
        if problem is not None:
            reason = f"{command[0]} cannot compile the kernel: {problem}"
            write_atomically(_failure_file(library), reason.encode())
            raise BuildError(reason)
        digest = hashlib.sha256(built.read_bytes()).hexdigest()
        built.chmod(0o700)  # the umask may let a group write, and then it would not be loaded
        os.replace(built, library)
        write_atomically(_digest_file(library), digest.encode(), mode=0o600)
    _failure_file(library).unlink(missing_ok=True)


def _run(command: list[str]) -> str | None:
    """None, or the compiler's first complaint."""
    try:
        done = subprocess.run(
            command, capture_output=True, errors="replace", timeout=SECONDS_TO_COMPILE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    complaints = [line for line in done.stderr.splitlines() if "error" in line]
    return (complaints or done.stderr.splitlines() or [f"exit code {done.returncode}"])[0]
