"""Files that survive: the user's cache, writing whole or not at all, one process at a time."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: processes there do not notice each other; renames stay atomic
    fcntl = None  # type: ignore[assignment]


class CacheError(RuntimeError):
    """There is no folder for the cache; the message says what to set."""


def cache_folder() -> Path:
    """$RDA_CACHE, or the user's cache."""
    named = os.environ.get("RDA_CACHE")
    folder = named or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "rda-torch")
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError as error:
        raise CacheError(f"no folder for the cache ({error}); set RDA_CACHE to one") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path`: a temporary file beside it, flushed to the disk, then renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` outlive a power cut; not every system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """One process works, the others wait; a killed one lets go."""
    with path.open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def try_lock(path: Path) -> IO[bytes] | None:
    """The lock, held until the file is closed; None where another process holds it."""
    file = path.open("ab")
    if fcntl is None:
        return file
    for _ in range(20):  # who only looks whether it is held, holds it for a moment
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            time.sleep(0.025)
    file.close()
    return None


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    if fcntl is None or not path.exists():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
