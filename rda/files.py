"""Files that outlive a process: the user's cache, atomic writes, locks between processes.

All of the package writes through `write_atomically`, `replacing` or the opener `plain`, because a
folder may be somebody else's: a link in it could lead to a file of this user's.

Compiled code is loaded from the cache and runs with the rights of the user. So it is kept only
where no other user could have put it (`code_folder`), as ssh does with its keys. Data sets may be
shared with others: their content is verified by checksum each time it is read.
"""

import atexit
import contextlib
import errno
import functools
import os
import secrets
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: processes there do not notice each other; renames stay atomic
    fcntl = None  # type: ignore[assignment]

LEFTOVER = r"\.([0-9a-f]{8}|\d+)\.tmp"
"""What names of temporary files end in; those of earlier versions end in digits."""
# Windows has neither: making links takes rights there that users do not have.
NO_LINKS, NO_WAITING = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
SECONDS_BETWEEN_TRIES = 0.05
"""How often a lock is tried that another process holds."""


class CacheError(RuntimeError):
    """There is no folder for the cache; the message says what to set."""


class CacheWarning(UserWarning):
    """The cache that was asked for is not used; the message says why, and what is used."""


def cache_folder() -> Path:
    """$RDA_CACHE, or the user's cache."""
    named = os.environ.get("RDA_CACHE")
    return _absolute(named) if named else _user_cache()


def _user_cache() -> Path:
    # The XDG base directory specification says to ignore a relative path.
    home = os.environ.get("XDG_CACHE_HOME", "")
    return _absolute(os.path.join(home if os.path.isabs(home) else "~/.cache", "rda-torch"))


def _absolute(folder: str) -> Path:
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError as error:
        raise CacheError(f"no folder for the cache ({error}); set RDA_CACHE to one") from error


def code_folder() -> Path:
    """Where compiled code is kept: the cache, or another folder if other users can write there."""
    asked = cache_folder()
    reason = exposure(asked)
    if reason is None:
        return asked
    folder = _private_folder()
    _warn_once(
        f"rda: no compiled code is kept in {asked}: {reason}, so that what is loaded from there "
        f"could be theirs. It is kept in {folder} instead. Set RDA_CACHE to a folder that only "
        "you can write"
    )
    return folder


def _private_folder() -> Path:
    """The user's cache, or a folder of this user's among the temporary files."""
    with contextlib.suppress(CacheError):
        if exposure(_user_cache()) is None:
            return _user_cache()
    lasting = Path(tempfile.gettempdir()).absolute() / f"rda-torch-{os.getuid()}"
    with contextlib.suppress(OSError):
        lasting.mkdir(mode=0o700, exist_ok=True)
    return lasting if lasting.is_dir() and exposure(lasting) is None else _passing_folder()


@functools.cache
def _passing_folder() -> Path:
    """A folder for this process alone, where no other place is safe."""
    folder = tempfile.mkdtemp(prefix="rda-torch-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=3)


def exposure(path: Path) -> str | None:
    """Why a user other than this one and root could have written what is at `path`, or None.

    Of a path that is not there yet, the folders that are there count.
    """
    if not hasattr(os, "getuid"):
        return None  # Windows: the rights of a user's own folders are left to the system
    for end in (path, Path(os.path.realpath(path))):
        places = [place for place in (*reversed(end.parents), end) if os.path.lexists(place)]
        statuses = [place.lstat() for place in places]
        owners_and_modes = [(status.st_uid, status.st_mode) for status in statuses]
        found = weakness(owners_and_modes, os.getuid(), ends=places[-1] == end)
        if found is not None:
            index, reason = found
            return f"{places[index]} {reason}"
    return None


def weakness(
    places: Sequence[tuple[int, int]], user: int, *, ends: bool = True
) -> tuple[int, str] | None:
    """The first place on a path that others could change, by index, and why; or None.

    Args:
        places: owner and mode of every folder from the root down, and of the file at the end.
        user: the user whose code it is. Root is trusted, too.
        ends: whether the last place is the end of the path, and not a parent of it. In a parent
            with the sticky bit, such as /tmp, others can add files, but not replace those of
            `user`. At the end of the path what others add is what must not be loaded.
    """
    is_sealed = False
    for index, (owner, mode) in enumerate(places):
        is_parent = not ends or index < len(places) - 1
        if owner not in (user, 0):
            return index, f"belongs to another user (uid {owner})"
        if stat.S_ISLNK(mode):
            continue  # the mode of a link means nothing
        is_sticky_parent = is_parent and mode & stat.S_ISVTX
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky_parent and not is_sealed:
            return index, f"can be written by other users (mode {stat.S_IMODE(mode):o})"
        # Others cannot reach what lies in a folder that they may not enter.
        is_sealed |= is_parent and not mode & (stat.S_IXGRP | stat.S_IXOTH)
    return None


def make_private(folder: Path) -> None:
    """Create `folder` and the parents it lacks, all of them for this user alone."""
    for place in reversed((folder, *folder.parents)):
        if not place.is_dir():
            place.mkdir(mode=0o700, exist_ok=True)


def sweep(folder: Path, pattern: str, seconds: float) -> None:
    """Remove what matches `pattern` and is older: killed processes left it behind."""
    for leftover in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if time.time() - leftover.lstat().st_mtime > seconds:
                if leftover.is_dir() and not leftover.is_symlink():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink()


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace `path` as a whole or not at all; `mode` is less what the umask takes away."""
    with replacing(path, mode) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` when the context ends without an error.

    It lies beside `path` under a name that nobody can foresee, is flushed to the disk, then
    renamed. Whatever else has its name, such as a link, is not written to and stays. A link at
    `path` is replaced, and not followed. A device, or a link to one or to a
    stream, such as /dev/stdout, is refused.
    """
    _refuse_device(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    file = open(temporary, "xb", opener=functools.partial(plain, mode=mode))  # noqa: SIM115
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _refuse_device(path: Path) -> None:
    """Raise where a file would take the place of a device or of a link to one: root may do that,
    and a stream such as /dev/stdout would be gone for everybody."""
    try:
        is_link, kind = path.is_symlink(), path.stat().st_mode
        leads_to_stream = is_link and os.readlink(path).startswith("/proc/")
    except OSError:
        return  # nothing is there, or a link that leads nowhere
    leads_to_stream |= is_link and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind))
    if leads_to_stream or stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))


def plain(path: str | Path, flags: int, mode: int = 0o666) -> int:
    """An opener for `open` that takes plain files alone, and for writing none behind a link.

    A pipe in a folder of somebody else's would be waited for without end, a device be endless.
    """
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    try:
        handle = os.open(path, flags | NO_WAITING | (NO_LINKS if writes else 0), mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(error.errno, "it is a link", str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return handle


def read_plain(path: Path) -> bytes:
    """The content of a plain file, or of one behind a link."""
    with open(path, "rb", opener=plain) as file:
        return file.read()


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` outlive a power cut. Not every system can open a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def waiting_lock(path: Path, waits: Callable[[float], None]) -> Iterator[None]:
    """Wait until no other process holds the lock, hold it, then remove its file.

    The system releases the lock of a process that dies. Whoever can open the file can hold the
    lock without end: so while this waits, `waits` is called with the seconds that it has waited,
    and raises where that is too long.
    """
    begin = time.monotonic()
    while True:
        with open(path, "ab", opener=plain) as file:
            if _is_ours_now(file, path):
                try:
                    yield
                finally:
                    with contextlib.suppress(OSError):  # Windows removes no file that is open
                        path.unlink()
                return
        waits(time.monotonic() - begin)
        time.sleep(SECONDS_BETWEEN_TRIES)


def _is_ours_now(file: BinaryIO, path: Path) -> bool:
    """Take the lock if it is free. One whose file was removed meanwhile does not count."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
