"""Copy and multicopy: remember symbols and repeat them after the recall symbol.

Symbols 0 to alphabet - 1 carry data, `alphabet` is the blank, `alphabet + 1` asks for the recall.
At all other steps the right answer is the blank. The recall symbol is never an answer, so there
is one class fewer than there are input symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rda.settings import Goal, Limits, Recipe
from rda.tasks.registry import register
from rda.tasks.task import Batch, Preset, Task

if TYPE_CHECKING:
    from torch import Generator, Tensor


SUMMED = Recipe(reduction="sum")
"""A sum over batch and time. The paper does not name it, but ends the axes of these losses at 1e4
and 2e5, which nobody would choose for a mean."""


class _Copying(Task):
    """Base class of Copy and MultiCopy."""

    added_later = ("counted",)
    symbolic = True
    reads_every_step = True

    alphabet: int
    counted: Literal["all", "answers"]

    @property
    def input_size(self) -> int:
        return self.alphabet + 2

    @property
    def output_size(self) -> int:
        return self.alphabet + 1

    @property
    def blank(self) -> int:
        """The symbol that carries no data."""
        return self.alphabet

    @property
    def recall(self) -> int:
        """The symbol that asks for the answer."""
        return self.alphabet + 1

    def score(self, prediction: Tensor, target: Tensor, loss: Tensor) -> Tensor:
        right = prediction.argmax(-1) == target
        if self.counted == "all":
            return right.float().mean()
        asked = target != self.blank
        return (right & asked).sum() / asked.sum()

    def _draw(self, shape: tuple[int, ...], generator: Generator) -> Tensor:
        import torch

        return torch.randint(self.blank, shape, generator=generator, device=generator.device)

    def _blanks(self, shape: tuple[int, ...], generator: Generator) -> Tensor:
        import torch

        return torch.full(shape, self.blank, device=generator.device)


@register
@dataclass(frozen=True)
class Copy(_Copying):
    """Remember the first symbols and repeat them when asked."""

    name = "copy"
    title = "Copy"
    reference = "section 6.3, Table 5"
    goal = Goal("accuracy", ">", 0.999)
    minima: ClassVar = {"symbols": 1, "alphabet": 1, "delay": 1}

    symbols: int = 10
    """Symbols to remember."""
    alphabet: int = 7
    """Number of different data symbols (blank and recall not counted)."""
    delay: int = 1000
    """The recall comes at a random step among this many. Sequence length = delay + 2 * symbols."""
    counted: Literal["all", "answers"] = "all"
    """Steps that count for the accuracy: all, or those at which a symbol is to be repeated."""

    @classmethod
    def full(cls) -> Preset:
        return Preset(cls(), SUMMED, Limits(steps=20_000))

    @classmethod
    def small(cls) -> Preset:
        task = cls(symbols=3, alphabet=4, delay=20)
        return Preset(task, Recipe(hidden_size=64, batch_size=64))

    @property
    def length(self) -> int:
        """Steps in a sequence."""
        return self.delay + 2 * self.symbols

    @property
    def chance(self) -> float:
        return 1 - self.symbols / self.length if self.counted == "all" else 1 / self.alphabet

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        """Symbols first, then blanks with one recall at a random step that leaves room."""
        import torch

        device = generator.device
        shown = self._draw((self.symbols, batch_size), generator)
        recall = torch.randint(self.delay, (1, batch_size), generator=generator, device=device)
        recall = recall + self.symbols
        answer = torch.arange(1, self.symbols + 1, device=device).unsqueeze(1) + recall
        input = self._blanks((self.length, batch_size), generator)
        input[: self.symbols] = shown
        input.scatter_(0, recall, self.recall)
        target = self._blanks((self.length, batch_size), generator).scatter_(0, answer, shown)
        return Batch(input, target)


@register
@dataclass(frozen=True)
class MultiCopy(_Copying):
    """Remember and repeat symbols again and again within one sequence."""

    name = "multicopy"
    title = "Multiple sequence copy"
    reference = "section 6.4, Table 6"
    goal = Goal("accuracy", ">", 0.99)
    minima: ClassVar = {"copies": 1, "symbols": 1, "alphabet": 1}

    copies: int = 50
    """Number of copies in a sequence."""
    symbols: int = 9
    """Symbols in each copy; one copy takes 2 * symbols + 2 time steps."""
    alphabet: int = 7
    """Number of different data symbols (blank and recall not counted)."""
    counted: Literal["all", "answers"] = "all"
    """Steps that count for the accuracy: all, or those at which a symbol is to be repeated."""

    @classmethod
    def full(cls) -> Preset:
        return Preset(cls(), SUMMED)

    @classmethod
    def small(cls) -> Preset:
        task = cls(copies=20, symbols=4, alphabet=4)
        return Preset(task, Recipe(hidden_size=64, batch_size=64), Limits(steps=2000))

    @property
    def period(self) -> int:
        """Steps in one copy."""
        return 2 * self.symbols + 2

    @property
    def chance(self) -> float:
        return 1 - self.symbols / self.period if self.counted == "all" else 1 / self.alphabet

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        """In each copy: the symbols, one blank, the recall, and as many blanks as symbols."""
        shown = self._draw((self.copies, self.symbols, batch_size), generator)
        input = self._blanks((self.copies, self.period, batch_size), generator)
        target = input.clone()
        input[:, : self.symbols] = shown
        input[:, self.symbols + 1] = self.recall
        target[:, self.symbols + 2 :] = shown
        return Batch(input.flatten(0, 1), target.flatten(0, 1))
