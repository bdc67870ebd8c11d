"""The symbols of a text and their numbers."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["characters", "bytes"]
LARGEST_CHARACTER = 0x10FFFF
UNKNOWN = "\ufffd"


@dataclass(frozen=True)
class Vocabulary:
    """What a model reads and predicts: bytes, or characters of Unicode.

    The number of a symbol is its place in `symbols`. Where `has_unknown`, number 0 stands for
    everything else, and the others follow.
    """

    kind: Kind
    symbols: tuple[int, ...]
    """Bytes or code points, in ascending order."""
    has_unknown: bool = False

    def __len__(self) -> int:
        return len(self.symbols) + self.has_unknown

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Vocabulary:
        """The inverse of `facts`."""
        kind, symbols, unknown = facts["kind"], facts["symbols"], facts["has_unknown"]
        largest = 255 if kind == "bytes" else LARGEST_CHARACTER
        if kind not in ("bytes", "characters") or not isinstance(unknown, bool):
            raise ValueError("not a vocabulary")
        if not all(type(s) is int and 0 <= s <= largest for s in symbols):
            raise ValueError("not a vocabulary")
        return cls(kind, tuple(symbols), unknown)

    def facts(self) -> dict[str, Any]:
        """As plain values, to be saved with a model."""
        return {"kind": self.kind, "symbols": list(self.symbols), "has_unknown": self.has_unknown}

    def encode(self, text: str | bytes) -> Tensor:
        """The number of each symbol.

        Raises:
            ValueError: a symbol is not in the vocabulary, and there is no number for others.
        """
        import torch

        given = self._numbers(text)
        if not len(given):
            return given.long()
        known = self._known
        places = torch.searchsorted(known, given).clamp_(max=len(known) - 1)
        missing = known[places] != given
        if self.has_unknown:
            return torch.where(missing, 0, places + 1)
        if bool(missing.any()):
            stranger = int(given[missing][0])
            raise ValueError(
                f"the model does not know {self._named(stranger)}: the text that it was trained on "
                "has none"
            )
        return places

    def known(self, text: str | bytes) -> str | bytes:
        """The text, as `as_read` gives it, without the symbols that `encode` would refuse."""
        if self.has_unknown:
            return text
        if isinstance(text, bytes):
            return text.translate(None, bytes(set(range(256)).difference(self.symbols)))
        symbols = set(self.symbols)
        return "".join(letter for letter in text if ord(letter) in symbols)

    def as_read(self, pieces: Iterable[str | bytes]) -> Iterator[str | bytes]:
        """The pieces of a text as str or bytes, whichever has one element for each symbol.

        Bytes that are read as characters may be cut within a character.
        """
        decoder = codecs.getincrementaldecoder("utf-8")()
        for piece in pieces:
            if self.kind == "bytes":
                yield piece.encode() if isinstance(piece, str) else piece
            elif isinstance(piece, bytes):
                yield decoder.decode(piece)
            else:
                decoder.decode(b"", final=True)
                yield piece
        decoder.decode(b"", final=True)

    def decode(self, numbers: Iterable[int]) -> bytes:
        """The text of these symbols, as UTF-8 where they are characters."""
        known = self._texts
        return b"".join(known[number] for number in numbers)

    @cached_property
    def _texts(self) -> list[bytes]:
        if self.kind == "bytes":
            texts = [bytes([symbol]) for symbol in self.symbols]
        else:
            texts = [chr(symbol).encode("utf-8", "surrogatepass") for symbol in self.symbols]
        return [UNKNOWN.encode(), *texts] if self.has_unknown else texts

    @cached_property
    def _known(self) -> Tensor:
        import torch

        return torch.tensor(self.symbols)

    def _numbers(self, text: str | bytes) -> Tensor:
        import torch

        if self.kind == "bytes":
            content = text.encode() if isinstance(text, str) else text
            return _from_buffer(content, torch.uint8).long()
        return code_points(text if isinstance(text, str) else text.decode()).long()

    def _named(self, symbol: int) -> str:
        return f"byte 0x{symbol:02x}" if self.kind == "bytes" else f"the character {chr(symbol)!r}"


def code_points(text: str) -> Tensor:
    """The number of each character in Unicode."""
    import torch

    return _from_buffer(text.encode("utf-32-le", "surrogatepass"), torch.int32)


def _from_buffer(content: bytes, dtype: Any) -> Tensor:
    import torch

    # An empty buffer is refused; a read-only one brings a warning.
    return torch.frombuffer(bytearray(content), dtype=dtype) if content else torch.empty(0)
