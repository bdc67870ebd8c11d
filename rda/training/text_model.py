"""A trained model of text: writes text, and says how surprising a text is."""

import codecs
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rda.tasks.vocabulary import Vocabulary
from rda.training.model import SequenceModel
from rda.training.one_step import Step, one_step

BLOCK = 512
"""Symbols that are read at once. Always cut at the same places, whatever the pieces of a text:
matrix products of other sizes may round differently."""
DRAWN = 256
"""Random numbers that are drawn at once."""


class TextModel(SequenceModel):
    """Reads the symbols of a vocabulary and predicts the next; other options as `SequenceModel`."""

    def __init__(
        self, unit: str, hidden_size: int, *, vocabulary: Vocabulary, **options: Any
    ) -> None:
        super().__init__(
            unit,
            hidden_size,
            input_size=len(vocabulary),
            output_size=len(vocabulary),
            symbolic=True,
            reads_every_step=True,
            **options,
        )
        self.vocabulary = vocabulary

    def needed_beside(self) -> dict[str, Any]:
        """The vocabulary."""
        return {"vocabulary": self.vocabulary.facts()}

    def generate(
        self,
        prompt: str | bytes = "",
        length: int = 500,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> str:
        """The text that follows a prompt; the arguments are those of `stream`."""
        options: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "seed": seed}
        return "".join(self.stream(prompt, length, **options))

    def stream(
        self,
        prompt: str | bytes = "",
        length: int | None = None,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> Iterator[str]:
        """The text that follows a prompt, piece by piece as it is written.

        Args:
            prompt: what the model reads first; without one it begins as after a line's end.
            length: symbols to write (characters or bytes, as the model reads); None never ends.
            temperature: below 1 the likely becomes likelier; at 0 the likeliest is taken.
            top_p: draw from the likeliest symbols alone, as many as have this probability.
            seed: the same seed gives the same text; None draws one.

        Raises:
            ValueError: a value is out of range, or the model does not know a symbol of the prompt.
        """
        if not 0 <= temperature < math.inf:
            raise ValueError(f"temperature should be 0 or more, got {temperature}")
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p should be above 0 and at most 1, got {top_p}")
        if length is not None and length < 0:
            raise ValueError(f"length should be 0 or more, got {length}")
        symbols = self._start(prompt)
        device = self.readout.weight.device
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        return self._written(symbols.to(device), length, temperature, top_p, generator)

    def _start(self, prompt: str | bytes) -> Tensor:
        if prompt:
            return self.vocabulary.encode(prompt)
        known = ord("\n") in self.vocabulary.symbols or self.vocabulary.has_unknown
        return self.vocabulary.encode("\n") if known else torch.zeros(1, dtype=torch.long)

    def _written(
        self,
        symbols: Tensor,
        length: int | None,
        temperature: float,
        top_p: float,
        generator: torch.Generator,
    ) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        first = int(self.vocabulary.has_unknown)  # what is unknown cannot be written
        follow = self._after(symbols[:-1])
        number = int(symbols[-1])
        draws: list[float] = []
        written = 0
        while length is None or written < length:
            if not draws:
                draws = torch.rand(DRAWN, generator=generator, dtype=torch.float64).tolist()
            with torch.inference_mode(), _one_thread():  # not around the yield: the caller's too
                # A GPU would take longer to start the draw's small kernels than a CPU to compute.
                logits = follow(number)[first:].cpu()
                number = first + _draw(logits, temperature, top_p, draws.pop())
            written += 1
            piece = decoder.decode(self.vocabulary.decode([number]))
            if piece:
                yield piece
        rest = decoder.decode(b"", final=True)
        if rest:
            yield rest

    @torch.inference_mode()
    def _after(self, symbols: Tensor) -> Step:
        """Steps that go on where these symbols end."""
        state = None
        for part in symbols.split(BLOCK) if len(symbols) else ():
            _, state = self(part.unsqueeze(1), state)
        return one_step(self, state)

    def bits(self, text: str | bytes | Iterable[str | bytes]) -> Tensor:
        """How surprising each symbol of a text is, in bits, after all that came before it.

        The first symbol has nothing before it, so there is one value fewer than symbols. A text
        in pieces gives the same values, to the last bit on a CPU.
        """
        pieces = [text] if isinstance(text, str | bytes) else text
        values = list(self.bits_of_pieces(pieces))
        return torch.cat(values) if values else torch.empty(0)

    def bits_of_pieces(self, pieces: Iterable[str | bytes]) -> Iterator[Tensor]:
        """As `bits`, a block at a time: a text of any length in little memory."""
        return self.bits_of_symbols(map(self.vocabulary.encode, self.vocabulary.as_read(pieces)))

    def bits_of_symbols(self, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        """As `bits_of_pieces`, for pieces that the vocabulary has encoded."""
        device = self.readout.weight.device
        waiting = torch.empty(0, dtype=torch.long)
        state = None
        for piece in pieces:
            waiting = torch.cat((waiting, piece))
            while len(waiting) > BLOCK:
                values, state = self._surprise(waiting[: BLOCK + 1].to(device), state)
                waiting = waiting[BLOCK:]
                yield values
        if len(waiting) > 1:
            values, _ = self._surprise(waiting.to(device), state)
            yield values

    @torch.inference_mode()
    def _surprise(self, symbols: Tensor, state: Any) -> tuple[Tensor, Any]:
        prediction, state = self(symbols[:-1].unsqueeze(1), state)
        nats = torch.nn.functional.cross_entropy(
            prediction[:, 0].float(), symbols[1:], reduction="none"
        )
        return (nats / math.log(2.0)).cpu(), state


@contextmanager
def _one_thread() -> Iterator[None]:
    """One symbol is too little work to share: with two threads it takes several times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _draw(logits: Tensor, temperature: float, top_p: float, draw: float) -> int:
    """The number of a symbol: that at which the sum of probabilities passes the drawn number."""
    if temperature == 0:
        return int(logits.argmax())
    # Without the largest, a small temperature could make infinities of differences.
    shares = torch.softmax((logits - logits.max()).double() / temperature, 0)
    if top_p == 1:
        return _at(shares.cumsum(0), draw)
    ordered, places = shares.sort(descending=True)
    sums = ordered.cumsum(0)
    kept = int((sums < top_p).sum()) + 1
    return int(places[_at(sums[:kept], draw)])


def _at(sums: Tensor, draw: float) -> int:
    """The last sum may be a little below 1, and stands for all the rest."""
    return min(int(torch.searchsorted(sums, float(sums[-1]) * draw, right=True)), len(sums) - 1)
