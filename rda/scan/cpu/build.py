"""Compiling the CPU kernel at first use, once for each machine, into a cache.

The compiler is called directly: the kernel includes nothing of torch's headers, which alone take
longer to compile than all of it, and ninja is not needed.
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
from pathlib import Path

from rda.files import CacheError, cache_folder, waiting_lock

COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-march=native")
THREADS = "-fopenmp"
SECONDS_TO_COMPILE = 300


class BuildError(RuntimeError):
    """The kernel cannot be had on this machine; the message is the reason in one line."""


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


def load() -> ctypes.CDLL:
    """The compiled kernel, from the cache or compiled now."""
    source = Path(__file__).with_name("kernel.cpp").read_text()
    command = [*compiler(), *flags()]
    try:
        library = cache_folder() / f"kernel-{_key(source, command)}.so"
    except CacheError as error:
        raise BuildError(str(error)) from error
    try:
        if not _is_whole(library):
            library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with waiting_lock(library.with_suffix(".lock")):
                if not _is_whole(library):
                    _compile(source, command, library)
    except OSError as error:
        raise BuildError(
            f"the cache folder {library.parent} cannot be used ({error.strerror or error}); "
            "set RDA_CACHE to one that can be written"
        ) from error
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise BuildError(f"the compiled kernel does not load: {error}") from error


def _key(source: str, command: list[str]) -> str:
    """Changes with the kernel, the compiler, its options and the CPU that -march=native means."""
    parts = (source, *command, _version(command[0]), platform.machine(), _cpu())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _version(program: str) -> str:
    # A new compiler is a new file: asking it for its version would cost every process a start.
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


def _is_whole(library: Path) -> bool:
    """Whether the file is what was once compiled; loading half of one would crash."""
    try:
        expected = _digest_file(library).read_text()
        return hashlib.sha256(library.read_bytes()).hexdigest() == expected
    except OSError:
        return False


def _compile(source: str, compiler_and_flags: list[str], library: Path) -> None:
    if sys.stderr.isatty():
        print("rda: compiling the CPU engine, once (a few seconds) ...", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        text, built = Path(folder) / "kernel.cpp", Path(folder) / library.name
        text.write_text(source)
        command = [*compiler_and_flags, THREADS, str(text), "-o", str(built)]
        problem = _run(command)
        if problem is not None:
            command.remove(THREADS)
            problem = _run(command)
        if problem is not None:
            raise BuildError(f"{compiler_and_flags[0]} cannot compile the kernel: {problem}")
        digest = Path(folder) / "digest"
        digest.write_text(hashlib.sha256(built.read_bytes()).hexdigest())
        os.replace(built, library)
        os.replace(digest, _digest_file(library))


def _run(command: list[str]) -> str | None:
    """None, or the compiler's first complaint."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_TO_COMPILE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    complaints = [line for line in done.stderr.splitlines() if "error" in line]
    return (complaints or done.stderr.splitlines() or [f"exit code {done.returncode}"])[0]
