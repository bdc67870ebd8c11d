"""The next character of a long text: segments of parallel streams, the state carried over."""

from collections.abc import Iterator, Mapping

import torch
from torch import Generator, Tensor

from rda.tasks.settings import Wikipedia
from rda.tasks.task import Batch, Classification, Part, bits


class WikipediaTask(Classification):
    """The first 90% of the characters train, the next 5% validate, the last 5% test.

    Each part is cut into as many streams as there are rows in a batch. Batches walk through
    all streams side by side, and begin again at their ends.
    """

    symbolic = True
    reads_every_step = True
    carries_state = True

    def __init__(
        self, settings: Wikipedia, device: torch.device, files: Mapping[str, bytes]
    ) -> None:
        super().__init__(settings, device)
        content = files["enwik8"][: settings.characters]
        counts = _as_numbers(content).bincount(minlength=256)
        alphabet = bytes(counts.nonzero().flatten().tolist())
        text = _as_numbers(content.translate(bytes(max(alphabet.find(i), 0) for i in range(256))))
        text = text.to(device)
        self.input_size = self.output_size = len(alphabet)
        self.embedding = settings.embedding
        self.segment = settings.segment
        self.streams = settings.evaluation_streams
        held_out = settings.characters // 20
        train = settings.characters - 2 * held_out
        self.parts = dict(
            zip(
                ("train", "validation", "test"),
                text.split((train, held_out, held_out)),
                strict=True,
            )
        )
        shares = counts[counts > 0].double() / len(content)
        self.chance = float(bits(-(shares * shares.log()).sum()))
        self._step = 0

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

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        return bits(loss)

    def position(self) -> dict[str, Tensor]:
        return {"step": torch.tensor(self._step)}

    def move_to(self, position: dict[str, Tensor]) -> None:
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
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _as_batch(characters: Tensor) -> Batch:
    symbols = characters.long()
    return Batch(symbols[:-1], symbols[1:])
