"""A long text, read in segments that hand on their state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rda.settings import Recipe
from rda.tasks.registry import TaskError
from rda.tasks.task import Batch, Part, Source, Task, bits

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor

    from rda.tasks.vocabulary import Vocabulary

HELD_OUT = 20
"""One part in so many validates, and another one tests."""


class Streams(Source):
    """The first 90% of the symbols train, the next 5% validate, the last 5% test.

    Each part is cut into as many streams as a batch has rows. Batches walk through all streams
    side by side, and begin again at their ends. Where streams are not a whole number of segments,
    every second pass begins later, so that it comes to their ends. `counts` says how often each
    symbol occurs.
    """

    def __init__(
        self,
        task: Task,
        device: torch.device,
        symbols: Tensor,
        vocabulary: Vocabulary,
        counts: Tensor,
        *,
        segment: int,
        evaluation_streams: int,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(task, device)
        self.vocabulary = vocabulary
        self.segment = segment
        self.streams = evaluation_streams
        self._facts = {"vocabulary": vocabulary.facts(), **(facts or {})}
        shares = counts[counts > 0].double() / counts.sum()
        self._chance = float(bits(-(shares * shares.log()).sum()))
        symbols = symbols.to(device)
        held_out = len(symbols) // HELD_OUT
        train, validation, test = symbols.split((len(symbols) - 2 * held_out, held_out, held_out))
        self.parts = {"train": train, "validation": validation, "test": test}
        self._step = 0
        self._begins = True

    @property
    def input_size(self) -> int:
        return len(self.vocabulary)

    @property
    def output_size(self) -> int:
        return len(self.vocabulary)

    @property
    def chance(self) -> float:
        return self._chance

    def facts(self) -> dict[str, Any]:
        return self._facts

    def check(self, recipe: Recipe) -> None:
        most = (len(self.parts["train"]) - 1) // self.segment
        if recipe.batch_size > most:
            raise TaskError(
                f"the text is too short for {recipe.batch_size} streams with segments of "
                f"{self.segment}: batch_size should be {most} or less, or segment smaller"
                if most
                else f"segment should be {len(self.parts['train']) - 1} or less for this text, "
                f"got {self.segment}"
            )

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        streams = _streams(self.parts["train"], batch_size)
        segments = max((len(streams) - 1) // self.segment, 1)
        turn, place = divmod(self._step, segments)
        later = max(len(streams) - 1 - segments * self.segment, 0) if turn % 2 else 0
        start = later + place * self.segment
        self._step += 1
        self._begins = self._step % segments == 0
        return _as_batch(streams[start : start + self.segment + 1])

    def evaluation(self, part: Part, batch_size: int) -> Iterator[Batch]:
        streams = _streams(self.parts[part], self.streams)
        for start in range(0, len(streams) - 1, self.segment):
            yield _as_batch(streams[start : start + self.segment + 1])

    def position(self) -> dict[str, Tensor]:
        import torch

        return {"step": torch.tensor(self._step), "begins": torch.tensor(self._begins)}

    def move_to(self, position: Mapping[str, Tensor]) -> None:
        self._step = int(position["step"])
        self._begins = bool(position.get("begins", self._step == 0))

    def start_of_stream(self) -> bool:
        return self._begins


def _streams(text: Tensor, count: int) -> Tensor:
    """(time, count): the text in `count` pieces; each also holds the next one's first character."""
    if len(text) < 2 * count:
        raise ValueError(f"a text of {len(text)} characters is too short for {count} streams")
    length = (len(text) - 1) // count
    return text.as_strided((length + 1, count), (1, length))


def _as_batch(characters: Tensor) -> Batch:
    symbols = characters.long()
    return Batch(symbols[:-1], symbols[1:])
