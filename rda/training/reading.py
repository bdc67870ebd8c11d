"""A trained model reads a whole text."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from rda.tasks.vocabulary import UNKNOWN
from rda.training.text_model import TextModel

LONGEST_CHARACTER = 4
"""Bytes of UTF-8."""


@dataclass
class Reading:
    """What a text cost, and its beginning character by character."""

    count: int = 0
    """Symbols that have a value: all but the first."""
    total: float = 0.0
    """Bits of all of them."""
    unknown: int = 0
    """Symbols that the model has no number of its own for."""
    left_out: int = 0
    """Symbols that a model without a number for others has never seen, and does not read."""
    shown: list[str] = field(default_factory=list)
    """The first characters, the very first included."""
    bits: list[float] = field(default_factory=list)
    """Their bits, from the second on; those of a character of several bytes are added up."""
    more: int = 0
    """Symbols beyond those that are shown."""

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
    """Let a model read a text in pieces.

    The characters of the first symbol and of the `shown` after it are kept, whole ones where
    symbols are bytes. `progress` is told how many symbols were read.
    """
    found = Reading()
    vocabulary = model.vocabulary
    kept = shown + LONGEST_CHARACTER
    beginning = ""
    values: list[float] = []

    def encoded() -> Iterator[Tensor]:
        nonlocal beginning
        for given in vocabulary.as_read(pieces):
            piece = vocabulary.known(given)
            found.left_out += len(given) - len(piece)
            numbers = vocabulary.encode(piece)
            if vocabulary.has_unknown:  # the first symbol of all has no value
                found.unknown += int((numbers[0 if beginning else 1 :] == 0).sum())
            beginning += _letters(piece[: kept - len(beginning)])
            yield numbers

    for part in model.bits_of_symbols(encoded()):
        found.total += float(part.double().sum())
        found.count += len(part)
        values += part[: kept - len(values)].tolist()
        progress(found.count)
    _show(found, _characters(beginning, vocabulary.kind == "bytes"), values, shown)
    return found


def _show(
    found: Reading, characters: Iterable[tuple[str, int]], values: list[float], shown: int
) -> None:
    start = 0
    for text, length in characters:
        if start > shown:
            break
        found.shown.append(text)
        if start:
            found.bits.append(sum(values[start - 1 : start - 1 + length]))
        start += length
    found.more = found.count - max(start - 1, 0)


def _letters(piece: str | bytes) -> str:
    """One letter for each symbol."""
    return piece if isinstance(piece, str) else piece.decode("latin-1")


def _characters(letters: str, are_bytes: bool) -> Iterator[tuple[str, int]]:
    """Each character, and how many symbols it takes; a byte that is in none is replaced."""
    if not are_bytes:
        yield from ((letter, 1) for letter in letters)
        return
    content = letters.encode("latin-1")
    start = 0
    while start < len(content):
        text, length = _first_character(content[start : start + LONGEST_CHARACTER])
        yield text, length
        start += length


def _first_character(content: bytes) -> tuple[str, int]:
    for length in range(1, len(content) + 1):
        try:
            return content[:length].decode(), length
        except UnicodeDecodeError:
            continue
    return UNKNOWN, 1
