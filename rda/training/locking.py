"""One process at a time in a run's folder."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rda.files import NO_WAITING, plain
from rda.training.status import RunInUseError

try:
    import fcntl
except ImportError:  # On Windows processes do not notice each other; renames stay atomic.
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"
ATTEMPTS = 20
SECONDS_BETWEEN = 0.025
"""A process that only checks whether a lock is held takes it for a moment. So a refused lock is
tried again, this often and with this pause."""


class RunLock:
    """Held until `release`, or until the process ends, however it ends.

    Two things are locked: the folder itself, because the lock file may be deleted while a run
    goes on, and the lock file, because network file systems may not lock folders.
    """

    def __init__(self, folder: Path) -> None:
        self._handles: list[int] = []
        try:
            self._handles.append(plain(folder / LOCK, os.O_RDWR | os.O_CREAT))
            with suppress(OSError):  # Windows opens no folders
                self._handles.append(os.open(folder, os.O_RDONLY))
            self.held = self._lock()
        except BaseException:
            self.release()
            raise
        if not self.held:
            self.release()

    def _lock(self) -> bool:
        """Whether this process is the only one here now."""
        for _ in range(ATTEMPTS):
            if all(_try(handle, shared=False) for handle in self._handles):
                return True
            time.sleep(SECONDS_BETWEEN)
        return False

    def release(self) -> None:
        """Let another process in."""
        for handle in self._handles:
            os.close(handle)
        self._handles = []


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder; a RunInUseError where another process holds it."""
    lock = RunLock(folder)
    try:
        if not lock.held:
            raise RunInUseError(f"run {folder} is in use by another process")
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a living process holds the lock of this folder."""
    for path in (folder / LOCK, folder):
        with suppress(OSError):  # not there, or not ours to open
            handle = os.open(path, os.O_RDONLY | NO_WAITING)
            try:
                if not _try(handle, shared=True):
                    return True
            finally:
                os.close(handle)
    return False


def _try(handle: int, shared: bool) -> bool:
    """Lock an open file without waiting; False where another process holds it."""
    if fcntl is None:
        return True
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
