"""Downloads one file. A broken download is resumed; a file gets its name once it is verified."""

import contextlib
import os
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from time import monotonic
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from rda.data import archive
from rda.data.catalogue import File
from rda.data.errors import ANOTHER_FOLDER, BY_HAND, BadFileError, DataError, DataWarning, why
from rda.data.patience import MirrorError, open_url
from rda.files import plain, waiting_lock

SECONDS_TO_WAIT = 30.0
"""How long a server may send nothing at all."""
SECONDS_TO_MEASURE = 60.0
FEWEST_BYTES = 1 << 14
"""A server that sends fewer bytes than this in `SECONDS_TO_MEASURE` counts as broken off."""
SECONDS_UNTIL_TOLD = 3.0
"""After so long it is said that another process downloads the same file."""
SECONDS_WITHOUT_GROWTH = 300.0
"""That process is waited for no longer than this while its part of the file does not grow."""
ATTEMPTS = 5
"""Attempts at one mirror, each of which resumes where the one before broke off."""
CHUNK = 1 << 16

Progress = Callable[[str, int, int | None], None]
"""Called with the name of the file, the bytes received, and all bytes to come if known."""


def download(file: File, folder: Path, progress: Progress | None = None) -> Path:
    """The verified file in `folder`, from the first mirror that delivers it."""
    try:
        with _made(folder):
            return _from_any_mirror(file, folder, progress or (lambda *_: None))
    except OSError as error:
        raise DataError(
            f"{file.name} cannot be written to {folder} ({why(error)}); make room there, or give "
            f"{ANOTHER_FOLDER}"
        ) from error


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder. After an error, those that were made and are empty are removed again."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for place in missing:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


def _from_any_mirror(file: File, folder: Path, progress: Progress) -> Path:
    failures = []
    for url in file.urls:
        target = folder / f"{file.name}{Path(urlsplit(url).path).suffix}"
        lock = target.with_name(f".{target.name}.lock")
        try:
            with waiting_lock(lock, _patience(file, lock, _part_of(target))):
                _from_mirror(url, file, target, progress)
            return target
        except BadFileError as error:
            failures.append(f"{url} {error.reason}")
        except MirrorError as error:
            failures.append(f"{url} {error}")
    raise DataError(
        f"{file.name} cannot be downloaded: {'; '.join(failures)}; "
        f"to go on without a network, {BY_HAND}"
    )


def _patience(file: File, lock: Path, part: Path) -> Callable[[float], None]:
    """Waits for another process as long as that gets on with its download, and says so once."""
    size, since, told = _size(part), 0.0, False

    def waits(seconds: float) -> None:
        nonlocal size, since, told
        who = f"{file.name} is being downloaded by another process, which holds {lock}"
        if seconds >= SECONDS_UNTIL_TOLD and not told:
            told = True
            warnings.warn(f"{who}: waiting for it", DataWarning, stacklevel=2)
        if _size(part) != size:
            size, since = _size(part), seconds
        if seconds - since >= SECONDS_WITHOUT_GROWTH:
            raise DataError(
                f"{who} and has received nothing for {SECONDS_WITHOUT_GROWTH:g} seconds: end it, "
                f"or give {ANOTHER_FOLDER}"
            )

    return waits


def _from_mirror(url: str, file: File, target: Path, progress: Progress) -> None:
    label = file.name
    if target.exists():
        with contextlib.suppress(BadFileError):
            archive.read(target, file)
            return  # another process was faster
        label = f"{file.name} (replacing a bad copy)"
    part = _part_of(target)
    resumed = _size(part) > 0
    try:
        _complete(url, file, part, partial(progress, label))
    except BadFileError:
        if not resumed:
            raise
        _complete(url, file, part, partial(progress, label))
    os.replace(part, target)


def _complete(url: str, file: File, part: Path, tell: Callable[[int, int | None], None]) -> None:
    """Fill `part` in several attempts, as the connection may break; remove it if it is wrong."""
    try:
        for attempts_left in reversed(range(ATTEMPTS)):
            before = _size(part)
            try:
                _transfer(url, file, part, tell)
                break
            except MirrorError:
                if not attempts_left or _size(part) <= before:
                    raise
        archive.read(part, file)
    except BadFileError:
        part.unlink(missing_ok=True)
        raise


def _transfer(url: str, file: File, part: Path, tell: Callable[[int, int | None], None]) -> None:
    """Append what `part` lacks; write it anew if the server cannot resume a download."""
    done = _size(part)
    response = _answer(url, done)
    if response is None:
        return
    with response:
        if response.status != 206:
            done = 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            raise BadFileError(part, file, "was continued at another place than asked for")
        limit = archive.largest_packed(file)
        total = None if response.length is None else done + response.length
        with open(part, "ab" if done else "wb", opener=plain) as out:
            for chunk in _chunks(response):
                done += len(chunk)
                if max(done, total or 0) > limit:
                    raise BadFileError(part, file, f"is too large (over {limit} bytes)")
                out.write(chunk)
                tell(done, total)
            out.flush()
            os.fsync(out.fileno())
    if total is not None and done < total:
        raise MirrorError(f"broke off after {done} of {total} bytes")


def _answer(url: str, start: int) -> HTTPResponse | None:
    """The server's answer, or None if the file ends at `start`."""
    request = urllib.request.Request(url, headers={"User-Agent": "rda-torch"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        return open_url(request, SECONDS_TO_WAIT)
    except HTTPError as error:
        error.close()
        if start and error.code == 416:
            return None
        raise MirrorError(f"answered {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        said = why(cause) if isinstance(cause, BaseException) else cause
        raise MirrorError(f"cannot be reached ({said})") from error


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    """The body, `CHUNK` bytes at a time; what came before an error is not lost.

    An error here is the network's, and not the disk's.
    """
    rest, failure = b"", None
    try:
        for piece in _pieces(response):
            rest += piece
            if len(rest) >= CHUNK:
                yield rest[:CHUNK]
                rest = rest[CHUNK:]
    except (OSError, HTTPException) as error:
        failure = MirrorError(f"broke off ({why(error)})")
    except MirrorError as error:
        failure = error
    if rest:
        yield rest
    if failure is not None:
        raise failure


def _pieces(response: HTTPResponse) -> Iterator[bytes]:
    """The body as it comes in, as long as it comes in at a reasonable rate."""
    left = response.length
    received, begin = 0, monotonic()
    while left is None or left > 0:
        piece = response.read1(CHUNK if left is None else min(CHUNK, left))
        if not piece:
            return
        yield piece
        left = None if left is None else left - len(piece)
        received += len(piece)
        if monotonic() - begin >= SECONDS_TO_MEASURE:
            if received < FEWEST_BYTES:
                raise MirrorError(f"sent only {received} bytes in {SECONDS_TO_MEASURE:g} seconds")
            received, begin = 0, monotonic()


def _part_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0
