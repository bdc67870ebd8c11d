"""Records in an object store: a run's folder here, and its copy under a URL.

The copy is written in an order in which a kill between any two files leaves a run that can be
continued: the settings first, because files without them are no run; what a checkpoint refers to
before the checkpoint, its checksum after it, the status of a run that has ended last. At most the
time since the last checkpoint is lost.
"""

import _thread
import json
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec

from rda.files import write_atomically
from rda.training.manifest import MANIFEST
from rda.training.record import CHECKPOINTS, SETTINGS, STATUS, write_status
from rda.training.status import RUNNING, RecordError, Status, status_from

SECONDS_BETWEEN_UPLOADS = 2.0
TRIES = 5
OWNER = "owner"
"""Names the process that trains the run now: a node that was lost and comes back must not write."""
LATE = (MANIFEST, STATUS)
NOT_STORED = ("lock", OWNER)


class StoreError(RecordError):
    """A place for records that cannot be read or written; the message says why."""


class RunStore:
    """The copy of one run."""

    def __init__(self, url: str, name: str) -> None:
        self.url = f"{url.rstrip('/')}/{name}"
        try:
            self._files, self._root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            raise StoreError(f"{url} cannot be used: {reason}") from error
        self._is_local = "file" in (
            self._files.protocol if isinstance(self._files.protocol, tuple)
            else (self._files.protocol,)
        )  # fmt: skip
        self._uploaded: dict[str, tuple[int, int]] = {}

    def status(self) -> Status | None:
        """The status as last uploaded; None where there is none."""
        try:
            content = json.loads(self._read(STATUS))
        except (OSError, ValueError):
            return None
        return status_from(content, Path(self.url, STATUS))

    def exists(self) -> bool:
        """Whether a run was uploaded."""
        self._files.invalidate_cache()
        return bool(self._files.exists(f"{self._root}/{SETTINGS}"))

    def remove(self) -> None:
        """Forget the run."""
        self._files.invalidate_cache()
        if self._files.exists(self._root):
            self._files.rm(self._root, recursive=True)

    def download(self, folder: Path) -> None:
        """Make a folder of the copy; files that the copy does not have go."""
        names = self._names()
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and name not in names and name not in NOT_STORED:
                path.unlink()
        for name in sorted(names, key=lambda name: (name in LATE, name)):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # an older checkpoint that is removed just now
                write_atomically(target, self._read(name))
        if not any(name.startswith(CHECKPOINTS) and name.endswith(".sha256") for name in names):
            self._forget_checkpoint(folder)

    def _forget_checkpoint(self, folder: Path) -> None:
        """Let an unfinished run begin again: a node that died uploaded a status, and not yet the
        checkpoint that it names."""
        status = self.status()
        if status is not None and not status.ended:
            write_status(folder, replace(status, saved_step=None))

    def claim(self) -> str:
        """Make this process the one that may write."""
        owner = secrets.token_hex(8)
        self._write(OWNER, owner.encode())
        return owner

    def belongs_to(self, owner: str) -> bool:
        """Whether no other process has claimed the run since."""
        return self._read(OWNER).decode() == owner

    def upload(self, folder: Path) -> None:
        """Bring the copy up to date with the folder."""
        found = {
            path.relative_to(folder).as_posix(): path
            for path in folder.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }
        goes_on = _state(folder) == RUNNING
        self._put(SETTINGS, found.get(SETTINGS))
        if goes_on:
            self._put(STATUS, found.get(STATUS))
            self._remove(MANIFEST)
        early = [name for name in found if name not in (*LATE, *NOT_STORED)]
        for name in sorted(early, key=_order):
            self._put(name, found[name])
        if not goes_on:
            for name in LATE:
                self._put(name, found.get(name))
        for name in self._names():
            if name.startswith(f"{CHECKPOINTS}/") and not (folder / name).exists():
                self._remove(name)

    def _put(self, name: str, path: Path | None) -> None:
        if path is None:
            return
        with suppress(FileNotFoundError):  # an older checkpoint that was removed just now
            facts = path.stat()
            stamp = facts.st_size, facts.st_mtime_ns
            if self._uploaded.get(name) != stamp:
                self._write(name, path.read_bytes())
                self._uploaded[name] = stamp

    def _names(self) -> list[str]:
        self._files.invalidate_cache()
        try:
            found: list[str] = self._files.find(self._root)
        except FileNotFoundError:
            return []
        names = [path.removeprefix(self._root).lstrip("/") for path in found]
        return [name for name in names if name not in NOT_STORED and "/." not in f"/{name}"]

    def _read(self, name: str) -> bytes:
        content: bytes = self._files.cat_file(f"{self._root}/{name}")
        return content

    def _write(self, name: str, content: bytes) -> None:
        path = f"{self._root}/{name}"
        if self._is_local:  # an object store replaces an object as a whole, a disk does not
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), content)
        else:
            self._files.pipe_file(path, content)

    def _remove(self, name: str) -> None:
        self._uploaded.pop(name, None)
        with suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")


def _order(name: str) -> tuple[bool, str]:
    """Checkpoints after the rest; "step-1.safetensors" comes before "step-1.sha256" by itself."""
    return name.startswith(f"{CHECKPOINTS}/"), name


def _state(folder: Path) -> Any:
    try:
        return json.loads((folder / STATUS).read_text()).get("state")
    except (OSError, ValueError):
        return RUNNING


@contextmanager
def in_store(url: str, name: str) -> Iterator[Path]:
    """A folder of this machine with the run of a store, copied back again and again."""
    store = RunStore(url, name)
    with tempfile.TemporaryDirectory(prefix="rda-run-", ignore_cleanup_errors=True) as place:
        folder = Path(place, name)
        folder.mkdir()
        owner = store.claim()
        store.download(folder)
        copying = _Copying(store, folder, owner)
        copying.start()
        try:
            yield folder
        finally:
            copying.finish()
            shutil.rmtree(folder, ignore_errors=True)


class _Copying(threading.Thread):
    """Uploads what is new every few seconds, and once more at the end."""

    def __init__(self, store: RunStore, folder: Path, owner: str) -> None:
        super().__init__(daemon=True)
        self._store, self._folder, self._owner = store, folder, owner
        self._done = threading.Event()
        self._lost = False

    def run(self) -> None:
        while not self._done.wait(SECONDS_BETWEEN_UPLOADS):
            with suppress(Exception):  # the network may come back; at the end it must
                self._copy()
            if self._lost:
                _thread.interrupt_main()  # as Ctrl-C: the run stops at its next step
                return

    def finish(self) -> None:
        """The last upload, tried several times."""
        self._done.set()
        self.join()
        for attempt in range(TRIES):
            try:
                self._copy()
                break
            except Exception as error:
                if attempt == TRIES - 1:
                    reason = " ".join(str(error).split())
                    raise StoreError(f"cannot write {self._store.url}: {reason}") from error
                threading.Event().wait(2.0**attempt)
        if self._lost:
            raise StoreError(f"{self._store.url} is trained by another node now")

    def _copy(self) -> None:
        self._lost = self._lost or not self._store.belongs_to(self._owner)
        if not self._lost and (self._folder / SETTINGS).exists():
            self._store.upload(self._folder)
