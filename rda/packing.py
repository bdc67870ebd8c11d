"""From a PackedSequence to a padded one with lengths, and back."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


class Packing:
    """Where the rows of one PackedSequence stand in a (time, batch) grid, longest row first."""

    def __init__(self, packed: PackedSequence, owner: str) -> None:
        sizes, data = packed.batch_sizes, packed.data
        shrinking = sizes.dim() == 1 and len(sizes) > 0 and bool((sizes[:-1] >= sizes[1:]).all())
        if not shrinking or int(sizes.min()) < 0 or data.dim() != 2 or len(data) != sizes.sum():
            raise RuntimeError(
                f"{owner}: a PackedSequence should hold (sum of batch_sizes, features) data and "
                f"batch_sizes that never grow, got data {tuple(data.shape)} and batch_sizes "
                f"{sizes.tolist()}"
            )
        self._packed = packed
        self.time = len(packed.batch_sizes)
        self.batch = int(packed.batch_sizes[0])
        filled = torch.arange(self.batch) < packed.batch_sizes[:, None]
        device = packed.data.device
        self.lengths = filled.sum(0).to(device)
        self._positions = filled.flatten().nonzero().squeeze(1).to(device)

    def pad(self, data: Tensor) -> Tensor:
        """(time, batch, features), zero beyond each row's end."""
        grid = data.new_zeros(self.time * self.batch, data.shape[-1])
        filled = grid.index_copy(0, self._positions, data)
        return filled.view(self.time, self.batch, data.shape[-1])

    def pack(self, padded: Tensor) -> PackedSequence:
        """A PackedSequence in the order of the one that came in."""
        data = padded.flatten(0, 1).index_select(0, self._positions)
        _, batch_sizes, sorted_indices, unsorted_indices = self._packed
        return PackedSequence(data, batch_sizes, sorted_indices, unsorted_indices)

    def sort(self, part: Tensor) -> Tensor:
        """A state's batch, from the user's order to longest first."""
        order = self._packed.sorted_indices
        return part if order is None else part.index_select(1, order)

    def unsort(self, part: Tensor) -> Tensor:
        """A state's batch, back in the user's order."""
        order = self._packed.unsorted_indices
        return part if order is None else part.index_select(1, order)
