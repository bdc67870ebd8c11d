"""Any unit over time on tensors, by its own functions and differentiated by autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.ragged import running
from rda.symbolic.expressions import evaluate

if TYPE_CHECKING:
    from rda.units.unit import Unit


class Work(NamedTuple):
    """One direction of one layer over time."""

    projected: Tensor
    """W x + b, (time, batch, inputs * hidden)."""
    recurrent_weight: Tensor
    """(recurrent * hidden, hidden)."""
    weights: tuple[Tensor, ...]
    """(hidden,) each."""
    start: tuple[Tensor, ...]
    """(batch, hidden) each."""
    lengths: Tensor | None
    reverse: bool

    @property
    def times(self) -> Sequence[int]:
        """The steps in their order."""
        time = len(self.projected)
        return range(time - 1, -1, -1) if self.reverse else range(time)


def reference(unit: Unit, work: Work) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The output of every step, (time, batch, hidden), and the final state."""
    traced = unit.traced
    leaves = [leaf for group in traced[:4] for leaf in group.values()]
    going_on = None if work.lengths is None else running(work.lengths, work.projected)
    # unbind, because the backward pass of projected[t] creates a full-size tensor at every step.
    projected = work.projected.unbind(0)
    outputs = list(projected)
    state = unit.state_type(*work.start)
    for t in work.times:
        recurrent = F.linear(unit.hidden(state), work.recurrent_weight)
        x, h = projected[t].chunk(len(traced.x), -1), recurrent.chunk(len(traced.h), -1)
        values = dict(zip(leaves, (*x, *h, *state, *work.weights), strict=True))
        stepped = evaluate(traced.after.values(), values)
        if going_on is not None:
            pairs = zip(stepped, state, strict=True)
            stepped = [torch.where(going_on[t], new, old) for new, old in pairs]
        state = unit.state_type(*stepped)
        outputs[t] = unit.output(state)
    output = torch.stack(outputs)
    if going_on is not None:
        output = output.masked_fill(~going_on, 0.0)
    return output, tuple(state)
