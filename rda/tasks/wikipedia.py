"""The next character of a long text, read in segments that hand on their state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rda.settings import Limits, Recipe
from rda.tasks.registry import register
from rda.tasks.task import Batch, Part, Preset, Source, Task, bits

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor


@register
@dataclass(frozen=True)
class Wikipedia(Task):
    """Predict the next character of Wikipedia (enwik8)."""

    name = "wikipedia"
    title = "Hutter Prize Wikipedia"
    reference = "section 6.5, Table 7"
    metric = "bits"
    dataset = "enwik8"
    minima: ClassVar = {"segment": 1, "embedding": 1, "characters": 1000, "evaluation_streams": 1}
    symbolic = True
    reads_every_step = True
    carries_state = True

    segment: int = 250
    """Time steps in one segment (truncated BPTT); the state goes on to the next segment."""
    embedding: int = 64
    """Dimensions in which a character is embedded."""
    characters: int = 100_000_000
    """Use only the first N characters: 90% for training, 5% for validation, 5% for the test."""
    evaluation_streams: int = 100
    """Pieces of the validation and the test text that are evaluated side by side."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.characters > 100_000_000:
            raise ValueError(f"characters should be 100000000 or fewer, got {self.characters}")
        if self.characters // 20 < 2 * self.evaluation_streams:
            raise ValueError(
                f"evaluation_streams should be {self.characters // 40} or fewer for "
                f"{self.characters} characters, got {self.evaluation_streams}"
            )

    @classmethod
    def full(cls) -> Preset:
        recipe = Recipe(hidden_size=1800, batch_size=128, evaluate_every=1000)
        return Preset(cls(), recipe, Limits(steps=28_000))

    @classmethod
    def small(cls) -> Preset:
        task = cls(segment=50, embedding=16, characters=1_000_000, evaluation_streams=20)
        recipe = Recipe(hidden_size=64, batch_size=32, evaluate_every=100)
        return Preset(task, recipe, Limits(steps=500))

    @property
    def embedding_size(self) -> int:
        return self.embedding

    def check(self, recipe: Recipe) -> None:
        super().check(recipe)
        streams = self.characters * 9 // 20
        if recipe.batch_size > streams:
            raise ValueError(
                f"batch_size should be {streams} or less for {self.characters} characters, "
                f"got {recipe.batch_size}"
            )

    def open(self, device: torch.device, files: Mapping[str, bytes] | None = None) -> Source:
        return Streams(self, device, (files or {})["enwik8"])

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return bits(loss)


class Streams(Source):
    """The first 90% of the characters train, the next 5% validate, the last 5% test.

    Each part is cut into as many streams as a batch has rows. Batches walk through all streams
    side by side, and begin again at their ends.
    """

    def __init__(self, task: Wikipedia, device: torch.device, text: bytes) -> None:
        super().__init__(task, device)
        content = text[: task.characters]
        counts = _as_numbers(content).bincount(minlength=256)
        alphabet = bytes(counts.nonzero().flatten().tolist())
        codes = bytes(max(alphabet.find(byte), 0) for byte in range(256))
        symbols = _as_numbers(content.translate(codes)).to(device)
        self.alphabet = alphabet
        shares = counts[counts > 0].double() / len(content)
        self._chance = float(bits(-(shares * shares.log()).sum()))
        self.segment = task.segment
        self.streams = task.evaluation_streams
        held_out = task.characters // 20
        train, validation, test = symbols.split(
            (task.characters - 2 * held_out, held_out, held_out)
        )
        self.parts = {"train": train, "validation": validation, "test": test}
        self._step = 0

    @property
    def input_size(self) -> int:
        return len(self.alphabet)

    @property
    def output_size(self) -> int:
        return len(self.alphabet)

    @property
    def chance(self) -> float:
        return self._chance

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        streams = _streams(self.parts["train"], batch_size)
        start = self._step * self.segment
        self._step += 1
        if (self._step + 1) * self.segment + 1 > len(streams):
            self._step = 0
        return _as_batch(streams[start : start + self.segment + 1])

    def evaluation(self, part: Part, batch_size: int) -> Iterator[Batch]:
        streams = _streams(self.parts[part], self.streams)
        for start in range(0, len(streams) - 1, self.segment):
            yield _as_batch(streams[start : start + self.segment + 1])

    def position(self) -> dict[str, Tensor]:
        import torch

        return {"step": torch.tensor(self._step)}

    def move_to(self, position: Mapping[str, Tensor]) -> None:
        self._step = int(position["step"])

    def start_of_stream(self) -> bool:
        return self._step == 0


def _streams(text: Tensor, count: int) -> Tensor:
    """(time, count): the text in `count` pieces; each also holds the next one's first character."""
    if len(text) < 2 * count:
        raise ValueError(f"a text of {len(text)} characters is too short for {count} streams")
    length = (len(text) - 1) // count
    return text.as_strided((length + 1, count), (1, length))


def _as_numbers(content: bytes) -> Tensor:
    import torch

    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _as_batch(characters: Tensor) -> Batch:
    symbols = characters.long()
    return Batch(symbols[:-1], symbols[1:])
