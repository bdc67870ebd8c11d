"""Items in a random order that is drawn anew when all were used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor


class Shuffled:
    """The order in which training items are used."""

    def __init__(self, count: int, device: torch.device) -> None:
        import torch

        self.count = count
        self._order = torch.empty(0, dtype=torch.int64, device=device)
        self._used = 0

    def next(self, generator: Generator, batch_size: int) -> Tensor:
        """The numbers of the next items; what does not fill a batch is left out."""
        import torch

        batch_size = min(batch_size, self.count)
        if self._used + batch_size > len(self._order):
            self._order = torch.randperm(self.count, generator=generator, device=self._order.device)
            self._used = 0
        chosen = self._order[self._used : self._used + batch_size]
        self._used += batch_size
        return chosen

    def position(self) -> dict[str, Tensor]:
        """Where training stands, for a checkpoint."""
        import torch

        return {"order": self._order, "used": torch.tensor(self._used)}

    def move_to(self, position: Mapping[str, Tensor]) -> None:
        """Continue from a `position`."""
        order, used = position["order"], int(position["used"])
        all_items = list(range(self.count if len(order) else 0))
        if sorted(order.tolist()) != all_items or not 0 <= used <= len(order):
            raise IndexError(f"not an order of {self.count} items")
        self._order = order.to(self._order.device)
        self._used = used
