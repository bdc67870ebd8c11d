"""Downloading one file: resumed where it broke off, verified before it gets its name."""

import contextlib
import os
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from rda.data import archive
from rda.data.catalogue import File
from rda.data.errors import BY_HAND, BadFileError, DataError, why
from rda.files import waiting_lock

SECONDS_TO_WAIT = 30.0
"""For a server that sends nothing at all."""
ATTEMPTS = 5
"""At one mirror, each going on where the one before broke off."""
CHUNK = 1 << 16

Progress = Callable[[str, int, int | None], None]
"""Told what is being downloaded, the bytes that are here, and all there will be if known."""


class MirrorError(Exception):
    """One mirror does not give the file; the message is the reason."""


def download(file: File, folder: Path, progress: Progress | None = None) -> Path:
    """The verified file in `folder`, from the first mirror that gives it."""
    failures = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for url in file.urls:
            target = folder / f"{file.name}{Path(urlsplit(url).path).suffix}"
            try:
                with waiting_lock(target.with_name(f".{target.name}.lock")):
                    _from_mirror(url, file, target, progress or (lambda *_: None))
                return target
            except BadFileError as error:
                failures.append(f"{url} {error.reason}")
            except MirrorError as error:
                failures.append(f"{url} {error}")
    except OSError as error:
        raise DataError(
            f"{file.name} cannot be written to {folder} ({why(error)}); make room there, or give "
            "another folder with RDA_DATA or --data-dir"
        ) from error
    raise DataError(
        f"{file.name} cannot be downloaded: {'; '.join(failures)}; "
        f"to go on without a network, {BY_HAND}"
    )


def _from_mirror(url: str, file: File, target: Path, progress: Progress) -> None:
    label = file.name
    if target.exists():
        with contextlib.suppress(BadFileError):
            archive.read(target, file)
            return  # another process was faster
        label = f"{file.name} (replacing a bad copy)"
    part = target.with_name(f"{target.name}.part")
    resumed = _size(part) > 0
    try:
        _complete(url, file, part, partial(progress, label))
    except BadFileError:
        if not resumed:
            raise
        _complete(url, file, part, partial(progress, label))
    os.replace(part, target)


def _complete(url: str, file: File, part: Path, tell: Callable[[int, int | None], None]) -> None:
    """Fill `part`, however often the connection breaks; what is wrong is not kept."""
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
    """Append to `part` what it lacks, or write it anew where the server knows no ranges."""
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
        with open(part, "ab" if done else "wb") as out:
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
    """The server's answer; None where it has nothing from `start` on."""
    request = urllib.request.Request(url, headers={"User-Agent": "rda-torch"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=SECONDS_TO_WAIT)
        return response
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
    """The body; what goes wrong here is the network's fault, and not the disk's."""
    while True:
        try:
            chunk = response.read(CHUNK)
        except (OSError, HTTPException) as error:
            raise MirrorError(f"broke off ({why(error)})") from error
        if not chunk:
            return
        yield chunk


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
