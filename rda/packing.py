"""Conversion of a PackedSequence into a padded sequence with lengths, and back."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


class Packing:
    """The positions of a PackedSequence's rows in a (time, batch) grid, longest row first."""

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
        """(time, batch, features), with zeros after the end of each row."""
        grid = data.new_zeros(self.time * self.batch, data.shape[-1])
        filled = grid.index_copy(0, self._positions, data)
        return filled.view(self.time, self.batch, data.shape[-1])

    def pack(self, padded: Tensor) -> PackedSequence:
        """A PackedSequence in the order of the original one."""
        data = padded.flatten(0, 1).index_select(0, self._positions)
        _, batch_sizes, sorted_indices, unsorted_indices = self._packed
        return PackedSequence(data, batch_sizes, sorted_indices, unsorted_indices)

    def sort(self, part: Tensor) -> Tensor:
        """A state with its batch in the order of the rows: longest first."""
        order = self._packed.sorted_indices
        return part if order is None else part.index_select(1, order)

    def unsort(self, part: Tensor) -> Tensor:
        """A state with its batch back in the user's order."""
        order = self._packed.unsorted_indices
        return part if order is None else part.index_select(1, order)
