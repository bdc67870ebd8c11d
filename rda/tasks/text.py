"""The next character of any text: a file, a folder of files, or a pattern."""

from __future__ import annotations

import codecs
import glob
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rda.settings import Limits, Recipe
from rda.tasks.registry import TaskError, register
from rda.tasks.streams import HELD_OUT, Streams
from rda.tasks.task import Preset, Source, Task, bits
from rda.tasks.vocabulary import LARGEST_CHARACTER, Kind, Vocabulary, code_points

if TYPE_CHECKING:
    import torch
    from torch import Tensor

BLOCK = 1 << 22
SHORTEST = 1000
"""Symbols that a text needs at least: fewer leave nothing to validate with."""
MOST_CHARACTERS = 1 << 28
"""A longer text is read as bytes, which can stay on the disk."""
LARGE = 1 << 30
"""Bytes above which a file is not read into memory. It must not be changed during training."""
FEWEST_STEPS, MOST_DECAY = 2000, 0.3
"""Of a text of any length. Over an eighth of the training the weights decay by as much, however
many steps that is, up to this limit."""
OFTEN = 2
"""A character that occurs less often has no number of its own."""


class NotTextError(TaskError):
    """A file that does not hold characters of UTF-8."""


@register
@dataclass(frozen=True)
class Text(Task):
    """Predict the next character of a text of your own."""

    name = "text"
    title = "Text"
    metric = "bits"
    minima: ClassVar = {"segment": 1, "embedding": 1, "evaluation_streams": 1}
    symbolic = True
    reads_every_step = True
    carries_state = True

    file: str = ""
    """The text: a file, a folder (all files in it), or a pattern such as 'books/*.txt'. Its first
    90% train, the next 5% validate, the last 5% test."""
    read_as: Kind = "characters"
    """Read characters of UTF-8, or bytes of any file."""
    segment: int = 100
    """Time steps in one segment (truncated BPTT); the state goes on to the next segment."""
    embedding: int = 32
    """Dimensions in which a symbol is embedded."""
    evaluation_streams: int = 16
    """Pieces of the validation and the test text that are evaluated side by side; fewer where
    these are short."""

    @classmethod
    def full(cls) -> Preset:
        return cls()._preset(1_000_000, {})

    @classmethod
    def small(cls) -> Preset:
        task = cls(segment=50, embedding=16)
        recipe = Recipe(
            hidden_size=64,
            batch_size=16,
            learning_rate=0.003,
            restart_probability=0.02,
            evaluate_every=100,
        )
        return Preset(task, recipe, Limits(steps=500))

    def suited(self, given: Mapping[str, Any]) -> Preset | None:
        """More units and more steps for a longer text; a schedule that ends with the steps."""
        return self._preset(_size(self.paths()), given)

    def _preset(self, size: int, given: Mapping[str, Any]) -> Preset:
        """For a text of so many bytes."""
        hidden = 128 if size < 300_000 else 256 if size < 10_000_000 else 512
        rate = 0.01 if hidden < 512 else 0.006
        batch = max(given.get("batch_size", 16 if size < 300_000 else 32), 1)
        epoch = max(size * 9 // (10 * batch * self.segment), 1)
        steps = given.get("steps", min(max(8 * epoch, FEWEST_STEPS), 20_000))
        recipe = Recipe(
            hidden_size=hidden,
            batch_size=batch,
            learning_rate=rate,
            clip_norm=1.0,
            weight_decay=min(MOST_DECAY, round(8 / (rate * max(steps, 1)), 3)),
            restart_probability=0.02,
            evaluate_every=max(steps // 10, 1),
        )
        if given.get("schedule", "cosine") != "constant" and steps > 1:
            ends = given.get("schedule_steps", steps)
            warmup = max(min(ends // 50, ends - 1), 0)
            recipe = replace(
                recipe, schedule="cosine", warmup_steps=warmup, schedule_steps=max(ends, 1)
            )
        return Preset(self, recipe, Limits(steps=max(steps, 1)))

    @property
    def embedding_size(self) -> int:
        return self.embedding

    def paths(self) -> list[Path]:
        """The files, in alphabetical order.

        Raises:
            TaskError: there is none, or one cannot be read.
        """
        if not self.file:
            raise TaskError("text needs a text: --file corpus.txt, a folder, or a pattern")
        try:
            place = Path(self.file).expanduser()
            found = _files(place)
            for path in found:
                path.stat()
        except RuntimeError as error:  # there is no such user
            raise TaskError(f"there is no file {self.file}") from error
        except OSError as error:
            raise TaskError(f"{error.filename} cannot be read: {error.strerror}") from error
        if not found:
            where = f"in {self.file}" if place.is_dir() else self.file
            raise TaskError(f"there is no file {where}")
        return found

    def open(self, device: torch.device, files: Mapping[str, bytes] | None = None) -> Source:
        paths = self.paths()
        try:
            read = _read_bytes if self.read_as == "bytes" else _read_characters
            symbols, vocabulary, counts, digest = read(paths)
        except NotTextError as error:
            raise TaskError(f"{error}: --read-as bytes reads any file") from error
        return Streams(
            self,
            device,
            symbols,
            vocabulary,
            counts,
            segment=self.segment,
            evaluation_streams=max(min(self.evaluation_streams, len(symbols) // HELD_OUT // 25), 1),
            facts={"sha256": digest, "bytes": _size(paths)},
        )

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return bits(loss)


def pieces(paths: list[Path], kind: Kind) -> Iterator[str | bytes]:
    """The text of some files, a piece at a time, as characters or as bytes."""
    if kind == "bytes":
        yield from _blocks(paths)
    else:
        yield from (text for text, _ in _decoded(paths) if text)


def _files(place: Path) -> list[Path]:
    """A file itself, all of a folder that is not hidden, or what fits a pattern."""
    if place.is_file():
        return [place]
    if not place.is_dir():
        return sorted(path for path in map(Path, glob.glob(str(place))) if path.is_file())

    def refuse(error: OSError) -> None:
        raise error

    found = []
    for folder, folders, names in os.walk(place, onerror=refuse):
        folders[:] = (name for name in folders if not name.startswith("."))
        paths = (Path(folder, name) for name in names if not name.startswith("."))
        found += [path for path in paths if path.is_symlink() or path.is_file()]
    return sorted(found)


def _read_bytes(paths: list[Path]) -> tuple[Tensor, Vocabulary, Tensor, str]:
    """A single file that is large stays on the disk, and is read from there as it is needed."""
    import torch

    digest = hashlib.sha256()
    counts = torch.zeros(256, dtype=torch.int64)
    for block in _blocks(paths):
        digest.update(block)
        counts += torch.frombuffer(bytearray(block), dtype=torch.uint8).bincount(minlength=256)
    size = _size(paths)
    _check_size(paths, size, "bytes")
    if len(paths) == 1 and size > LARGE:
        symbols = torch.from_file(str(paths[0]), shared=False, size=size, dtype=torch.uint8)
    else:
        symbols = torch.frombuffer(bytearray().join(_blocks(paths)), dtype=torch.uint8)
    return symbols, Vocabulary("bytes", tuple(range(256))), counts, digest.hexdigest()


def _read_characters(paths: list[Path]) -> tuple[Tensor, Vocabulary, Tensor, str]:
    """First counts the characters, then gives each its number, a block at a time."""
    import torch

    size = _size(paths)
    if size > 4 * MOST_CHARACTERS:
        raise TaskError(
            f"{size:,} bytes are too many to be read as characters: --read-as bytes reads them"
        )
    digest = hashlib.sha256()
    counts = torch.zeros(LARGEST_CHARACTER + 1, dtype=torch.int64)
    total = 0
    for text, content in _decoded(paths):
        digest.update(content)
        if text:
            points = code_points(text)
            total += len(points)
            counts += points.bincount(minlength=len(counts))
    _check_size(paths, total, "characters")
    if total > MOST_CHARACTERS:
        raise TaskError(
            f"{total:,} characters are too many to be held: --read-as bytes reads them as bytes"
        )
    often = counts >= OFTEN
    if not bool(often.any()):
        raise TaskError("no character of the text occurs twice: there is nothing to be learned")
    vocabulary = Vocabulary("characters", tuple(often.nonzero().flatten().tolist()), True)
    counts = torch.cat((counts[~often].sum().view(1), counts[often]))
    dtype = torch.uint8 if len(vocabulary) <= 256 else torch.int32
    symbols = torch.empty(total, dtype=dtype)
    filled = 0
    for text, _ in _decoded(paths):
        symbols[filled : filled + len(text)] = vocabulary.encode(text)
        filled += len(text)
    return symbols, vocabulary, counts, digest.hexdigest()


def _size(paths: list[Path]) -> int:
    """Bytes of all of them."""
    return sum(path.stat().st_size for path in paths)


def _check_size(paths: list[Path], size: int, what: str) -> None:
    if size < SHORTEST:
        where = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files"
        raise TaskError(f"a text needs at least {SHORTEST:,} {what}, {where}: {size:,}")


def _blocks(paths: list[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            with path.open("rb") as file:
                while block := file.read(BLOCK):
                    yield block
        except OSError as error:
            raise TaskError(f"{path} cannot be read: {error.strerror}") from error


def _decoded(paths: list[Path]) -> Iterator[tuple[str, bytes]]:
    """Blocks of text with the bytes that they came from."""
    for path in paths:
        decoder = codecs.getincrementaldecoder("utf-8-sig")()  # a mark at the start is no text
        read = 0
        try:
            for block in _blocks([path]):
                yield decoder.decode(block), block
                read += len(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise NotTextError(f"{path} is not UTF-8 near byte {read + error.start:,}") from error
