"""Copy and multicopy: remember symbols, say them after the recall symbol, else stay blank.

Symbols 0 to alphabet - 1 carry data, `alphabet` is blank, `alphabet + 1` is recall. Recall is
never an answer, so there is one class fewer than there are inputs.
"""

import torch
from torch import Generator, Tensor

from rda.tasks.settings import Copy, MultiCopy
from rda.tasks.task import Batch, Classification


class _Copying(Classification):
    symbolic = True
    reads_every_step = True

    def __init__(self, settings: Copy | MultiCopy, device: torch.device) -> None:
        super().__init__(settings, device)
        self.symbols = settings.symbols
        self.blank = settings.alphabet
        self.recall = settings.alphabet + 1
        self.input_size = settings.alphabet + 2
        self.output_size = settings.alphabet + 1

    def _draw(self, shape: tuple[int, ...], generator: Generator) -> Tensor:
        return torch.randint(self.blank, shape, generator=generator, device=self.device)

    def _blanks(self, shape: tuple[int, ...]) -> Tensor:
        return torch.full(shape, self.blank, device=self.device)


class CopyTask(_Copying):
    """Symbols first, then blanks with one recall, uniform where the answer still fits."""

    def __init__(self, settings: Copy, device: torch.device) -> None:
        super().__init__(settings, device)
        self.delay = settings.delay
        self.length = settings.delay + 2 * settings.symbols
        self.chance = 1 - self.symbols / self.length

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        shown = self._draw((self.symbols, batch_size), generator)
        recall = torch.randint(self.delay, (1, batch_size), generator=generator, device=self.device)
        recall = recall + self.symbols
        answer = torch.arange(1, self.symbols + 1, device=self.device).unsqueeze(1) + recall
        input = self._blanks((self.length, batch_size))
        input[: self.symbols] = shown
        input.scatter_(0, recall, self.recall)
        target = self._blanks((self.length, batch_size)).scatter_(0, answer, shown)
        return Batch(input, target)


class MultiCopyTask(_Copying):
    """Again and again: the symbols, one blank, recall, and as many blanks as symbols."""

    def __init__(self, settings: MultiCopy, device: torch.device) -> None:
        super().__init__(settings, device)
        self.copies = settings.copies
        self.period = 2 * settings.symbols + 2
        self.chance = 1 - self.symbols / self.period

    def batch(self, generator: Generator, batch_size: int) -> Batch:
        shown = self._draw((self.copies, self.symbols, batch_size), generator)
        input = self._blanks((self.copies, self.period, batch_size))
        target = input.clone()
        input[:, : self.symbols] = shown
        input[:, self.symbols + 1] = self.recall
        target[:, self.symbols + 2 :] = shown
        return Batch(input.flatten(0, 1), target.flatten(0, 1))
