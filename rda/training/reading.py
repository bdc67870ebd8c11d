"""A trained model reads a whole text."""

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from rda.training.text_model import TextModel


@dataclass
class Reading:
    """What a text cost, and its beginning symbol by symbol."""

    count: int = 0
    """Symbols that have a value: all but the first."""
    total: float = 0.0
    """Bits of all of them."""
    unknown: int = 0
    """Symbols that the model has no number of its own for."""
    shown: list[str] = field(default_factory=list)
    """The first symbols as text, the very first included."""
    bits: list[float] = field(default_factory=list)
    """Their bits, from the second on."""

    @property
    def mean(self) -> float:
        """Bits of a symbol."""
        return self.total / self.count


def read_text(
    model: TextModel,
    pieces: Iterable[str | bytes],
    shown: int = 0,
    progress: Callable[[int], None] = lambda count: None,
) -> Reading:
    """Let a model read a text in pieces; `progress` is told how many symbols were read."""
    found = Reading()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def encoded() -> Iterator[Tensor]:
        begun = False  # the first symbol has no value
        for piece in pieces:
            for symbol in piece[: max(shown + 1 - len(found.shown), 0)]:
                text = symbol if isinstance(symbol, str) else decoder.decode(bytes([symbol]))
                found.shown.append(text)
            numbers = model.vocabulary.encode(piece)
            if model.vocabulary.has_unknown:
                found.unknown += int((numbers[0 if begun else 1 :] == 0).sum())
                begun = True
            yield numbers

    for values in model.bits_of_symbols(encoded()):
        found.total += float(values.double().sum())
        found.count += len(values)
        found.bits += values[: max(shown - len(found.bits), 0)].tolist()
        progress(found.count)
    return found
