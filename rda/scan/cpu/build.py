"""Compiling the CPU kernel at first use, once for each machine, into a cache.

The compiler is called directly: the kernel includes nothing of torch's, so it takes seconds
where an extension with torch's headers takes most of a minute, and ninja is not needed.
"""

import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-march=native")
THREADS = "-fopenmp"
SECONDS_TO_COMPILE = 300


class BuildError(RuntimeError):
    """The kernel cannot be had on this machine; the message is the reason in one line."""


def compiler() -> str | None:
    """The C++ compiler: $CXX where it is set, otherwise the first one on PATH."""
    named = os.environ.get("CXX")
    for name in (named,) if named else COMPILERS:
        found = shutil.which(name)
        if found:
            return found
    return None


def cache_folder() -> Path:
    """$RDA_CACHE, or the user's cache."""
    named = os.environ.get("RDA_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rda-torch"


def load() -> ctypes.CDLL:
    """The compiled kernel, from the cache or compiled now."""
    source = Path(__file__).with_name("kernel.cpp").read_text()
    with_compiler = compiler()
    if with_compiler is None:
        raise BuildError(f"no C++ compiler found (looked for $CXX, {', '.join(COMPILERS)})")
    library = cache_folder() / f"kernel-{_key(source, with_compiler)}.so"
    try:
        library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _lock(library.with_suffix(".lock")):
            if not _is_whole(library):
                _compile(source, with_compiler, library)
    except OSError as error:
        raise BuildError(
            f"the cache folder {library.parent} cannot be used ({error.strerror or error}); "
            "set RDA_CACHE to one that can be written"
        ) from error
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise BuildError(f"the compiled kernel does not load: {error}") from error


def _key(source: str, with_compiler: str) -> str:
    """Changes with the kernel, the compiler and the CPU that -march=native means."""
    parts = (source, with_compiler, _version(with_compiler), *FLAGS, platform.machine(), _cpu())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _version(with_compiler: str) -> str:
    # A new compiler is a new file: asking it for its version would cost every process a start.
    status = os.stat(with_compiler)
    return f"{os.path.realpath(with_compiler)} {status.st_size} {status.st_mtime_ns}"


def _cpu() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                return line
    return platform.processor()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One process compiles, the others wait; a killed one lets go."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there each process compiles, and renaming is atomic
        yield
        return
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _digest_file(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _is_whole(library: Path) -> bool:
    """Whether the file is what was once compiled; loading half of one would crash."""
    try:
        expected = _digest_file(library).read_text()
        return hashlib.sha256(library.read_bytes()).hexdigest() == expected
    except OSError:
        return False


def _compile(source: str, with_compiler: str, library: Path) -> None:
    if sys.stderr.isatty():
        print("rda: compiling the CPU engine, once (a few seconds) ...", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        text, built = Path(folder) / "kernel.cpp", Path(folder) / library.name
        text.write_text(source)
        command = [with_compiler, *FLAGS, THREADS, str(text), "-o", str(built)]
        problem = _run(command)
        if problem is not None:
            command.remove(THREADS)
            problem = _run(command)
        if problem is not None:
            raise BuildError(f"{with_compiler} cannot compile the kernel: {problem}")
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
