"""The next character of Wikipedia."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rda.settings import Limits, Recipe
from rda.tasks.registry import register
from rda.tasks.streams import Streams
from rda.tasks.task import Preset, Source, Task, bits
from rda.tasks.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch
    from torch import Tensor


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
        """The paper's sizes, with a recipe of our own.

        Deviation: section 6.1 has a constant rate of 0.001, batches of 100 and gradients clipped by
        value alone. Decay and streams that start anew are ours too.
        """
        steps = 28_000  # some ten epochs
        recipe = Recipe(
            hidden_size=1800,
            batch_size=128,
            learning_rate=0.004,
            schedule="cosine",
            warmup_steps=500,
            schedule_steps=steps,
            clip_norm=0.5,
            weight_decay=0.1,
            restart_probability=0.01,
            precision="bfloat16",
            evaluate_every=2000,
        )
        return Preset(cls(), recipe, Limits(steps=steps))

    @classmethod
    def small(cls) -> Preset:
        task = cls(segment=50, embedding=16, characters=1_000_000, evaluation_streams=20)
        recipe = Recipe(hidden_size=64, batch_size=32, restart_probability=0.02, evaluate_every=100)
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
        import torch

        content = (files or {})["enwik8"][: self.characters]
        found = tuple(byte for byte in range(256) if byte in content)
        vocabulary = Vocabulary("bytes", found)
        numbers = {symbol: number for number, symbol in enumerate(vocabulary.symbols)}
        codes = bytes(numbers.get(byte, 0) for byte in range(256))
        symbols = torch.frombuffer(bytearray(content.translate(codes)), dtype=torch.uint8)
        return Streams(
            self,
            device,
            symbols,
            vocabulary,
            symbols.bincount(minlength=len(vocabulary)),
            segment=self.segment,
            evaluation_streams=self.evaluation_streams,
        )

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return bits(loss)
