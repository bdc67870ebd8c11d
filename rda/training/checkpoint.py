"""Checkpoints: each is one safetensors file and its SHA-256, written completely or not at all.

A kill leaves at worst a file without its checksum, which does not count as a checkpoint. Nothing
is ever unpickled.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors
from torch import Tensor

from rda.files import read_plain, write_atomically
from rda.training.manifest import checksum_line
from rda.training.status import is_count

KEPT = 2
"""Two, so that one is left when the newest is damaged."""


class CheckpointError(RuntimeError):
    """No checkpoint can be used; the message says why."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that was saved: named tensors, and plain values as JSON."""

    step: int
    tensors: dict[str, Tensor]
    values: dict[str, Any]


def save(
    folder: Path, checkpoint: Checkpoint, before_it_counts: Callable[[], None] | None = None
) -> None:
    """Write a checkpoint, then remove all but the last two.

    `before_it_counts` is called when all of it is on the disk but its checksum.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(folder, checkpoint.step)
    if _is_good(path):  # the state after a step never changes, and writing it again could lose it
        return
    content = pack(checkpoint.tensors, checkpoint.values)
    path.with_suffix(".sha256").unlink(missing_ok=True)
    write_atomically(path, content)
    if before_it_counts is not None:
        before_it_counts()
    write_atomically(path.with_suffix(".sha256"), _checksum(path.name, content))
    for old in _steps(folder)[KEPT:]:
        _remove(_path(folder, old))


def load_latest(folder: Path, *, remove_bad: bool = True) -> tuple[Checkpoint | None, list[str]]:
    """The newest good checkpoint, and a line for each newer one that is not good.

    None where there is none; an error where there are some and none is good, or where the folder
    cannot be read.
    """
    complaints = []
    bad = []
    for step in _steps(folder):
        path = _path(folder, step)
        try:
            found = read(path)
        except CheckpointError as error:
            complaints.append(str(error))
            bad.append(path)
            continue
        for path in bad if remove_bad else ():
            _remove(path)
        return found, [f"{line}: going on from step {found.step}" for line in complaints]
    if any(path.exists() and path.with_suffix(".sha256").exists() for path in bad):
        raise CheckpointError(f"no checkpoint in {folder} can be used: {'; '.join(complaints)}")
    return None, []


def is_cut_off(folder: Path, step: int) -> bool:
    """Whether all of the first checkpoint is there but its checksum, and no other one."""
    path = _path(folder, step)
    return _listed(folder) == [path.name]


def any_in(folder: Path) -> bool:
    """Whether there is a part of a checkpoint, good or bad."""
    with suppress(OSError):
        return bool(_steps(folder))
    return False


def clear(folder: Path) -> None:
    """Remove all checkpoints, the newest last: after an error the newest one is still there.

    Only checkpoints are removed. The folder may be a link to another disk, and may hold files of
    someone else.
    """
    for step in reversed(_steps(folder)):
        _remove(_path(folder, step))
    if not folder.is_symlink():
        with suppress(OSError):
            folder.rmdir()


def _is_good(path: Path) -> bool:
    try:
        read(path)
    except CheckpointError:
        return False
    return True


def read(path: Path) -> Checkpoint:
    """One checkpoint, refused unless every byte is as it was written."""
    try:
        content = read_plain(path)
        written = read_plain(path.with_suffix(".sha256"))
    except OSError as error:
        raise CheckpointError(f"checkpoint {path.name} is incomplete ({error.strerror})") from error
    if written != _checksum(path.name, content):
        raise CheckpointError(f"checkpoint {path.name} is corrupt (its SHA-256 differs)")
    tensors, values = unpack(content)
    step = values.get("step", -1)
    if not is_count(step) or _path(path.parent, step) != path:
        raise CheckpointError(f"checkpoint {path.name} is not one of its step")
    return Checkpoint(step, tensors, values)


def pack(tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> bytes:
    """Tensors and plain values as one safetensors file."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return write_tensors(on_cpu, {"values": json.dumps(values)})


def unpack(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The inverse of `pack`."""
    try:
        tensors = read_tensors(content)
        (header_size,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + header_size])
        values = json.loads(header["__metadata__"]["values"])
    except (SafetensorError, ValueError, KeyError, RecursionError, struct.error) as error:
        raise CheckpointError(f"not a checkpoint of rda: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError("not a checkpoint of rda: its values have no names")
    return tensors, values


def _checksum(name: str, content: bytes) -> bytes:
    return checksum_line(name, hashlib.sha256(content).hexdigest()).encode()


def _path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:09d}.safetensors"


def _steps(folder: Path) -> list[int]:
    """The steps, newest first, of all files that look like a part of a checkpoint."""
    return sorted(set(_found(folder)), reverse=True)


def _found(folder: Path) -> Iterator[int]:
    for path in map(Path, _listed(folder)):
        digits = path.stem.removeprefix("step-")
        if path.suffix in (".safetensors", ".sha256") and digits.isascii() and digits.isdigit():
            yield int(digits)


def _listed(folder: Path) -> list[str]:
    """The names in a folder, none where there is no folder; a link must lead to one."""
    try:
        return os.listdir(folder)
    except FileNotFoundError as error:
        if not folder.is_symlink():
            return []
        reason = f"it leads to {os.readlink(folder)}, which is not there"
        raise FileNotFoundError(error.errno, reason, str(folder)) from error


def _remove(path: Path) -> None:
    path.with_suffix(".sha256").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
