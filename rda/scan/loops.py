"""Any unit over time in plain PyTorch: differentiated by autograd, or by its derived gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.ragged import running
from rda.symbolic.expressions import evaluate, symbol
from rda.symbolic.gradient import D_HIDDEN, D_OUTPUT

if TYPE_CHECKING:
    from rda.symbolic.derived import Derived
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
    """The output of every step and the final state: the unit's own functions on tensors."""
    traced = unit.traced
    going_on = None if work.lengths is None else running(work.lengths, work.projected).unbind(0)
    state = unit.state_type(*work.start)
    outputs = [work.projected] * len(work.projected)
    # unbind, because the backward pass of projected[t] creates a full-size tensor at every step.
    for t, projected in _in_order(work.projected.unbind(0), work.times):
        h = unit.hidden(state)
        recurrent = F.linear(h.to(work.recurrent_weight.dtype), work.recurrent_weight).to(h.dtype)
        x = projected.to(h.dtype).chunk(len(traced.x), dim=-1)
        values = dict(
            zip(
                (*traced.x.values(), *traced.h.values(), *traced.before.values(), *traced.weights.values()),
                (*x, *recurrent.chunk(len(traced.h), dim=-1), *state, *work.weights),
                strict=True,
            )
        )
        stepped = evaluate(traced.after.values(), values)
        if going_on is not None:
            stepped = [
                torch.where(going_on[t], new, old) for new, old in zip(stepped, state, strict=True)
            ]
        state = unit.state_type(*stepped)
        outputs[t] = unit.output(state)
    output = torch.stack(outputs)
    if going_on is not None:
        output = output * torch.stack(going_on)
    return output.to(work.projected.dtype), tuple(state)


def _in_order(steps: Sequence[Tensor], times: Sequence[int]) -> Any:
    return ((t, steps[t]) for t in times)


class Kept(NamedTuple):
    """What a forward pass keeps for the backward pass: a tensor for each sequence and value."""

    output: Tensor
    sequences: dict[str, Tensor]
    values: Tensor


def forward(of: Derived, work: Work) -> tuple[Kept, tuple[Tensor, ...]]:
    """As `reference`, and what the backward pass needs."""
    traced, kept = of.traced, of.kept
    time, batch, units = *work.projected.shape[:2], work.recurrent_weight.shape[1]
    going_on = None if work.lengths is None else running(work.lengths, work.projected)
    make = work.start[0].new_zeros
    output, saved = make(time, batch, units), make(time, len(kept.values), batch, units)
    sequences = {name: make(time, batch, units) for name in kept.sequences}
    state = of.unit.state_type(*work.start)
    transposed = work.recurrent_weight.t()
    for t in work.times:
        recurrent = of.unit.hidden(state) @ transposed
        leaves = (*traced.x.values(), *traced.h.values(), *traced.before.values(), *traced.weights.values())
        x, h = work.projected[t].chunk(len(traced.x), -1), recurrent.chunk(len(traced.h), -1)
        values = dict(zip(leaves, (*x, *h, *state, *work.weights), strict=True))
        stepped = evaluate(traced.after.values(), values)
        (output[t],) = evaluate([traced.output], values)
        for k, value in enumerate(evaluate(kept.values, values)):
            saved[t, k] = value
        if going_on is not None:
            output[t].mul_(going_on[t])
            stepped = [torch.where(going_on[t], new, old) for new, old in zip(stepped, state, strict=True)]
        state = of.unit.state_type(*stepped)
        for name, sequence in sequences.items():
            sequence[t] = getattr(state, name)
    return Kept(output, sequences, saved), tuple(state)


def backward(
    of: Derived, work: Work, kept: Kept, d_output: Tensor, d_final: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """The gradients of all blocks, (time, blocks, batch, hidden), and those of the start."""
    traced, gradient = of.traced, of.gradient
    names = list(traced.after)
    d_state = dict(zip(names, d_final, strict=True))
    hidden_part = traced.hidden_part
    d_hidden = torch.zeros_like(d_final[0]) if hidden_part is None else d_state.pop(hidden_part)
    starts = dict(zip(names, work.start, strict=True))
    going_on = None if work.lengths is None else running(work.lengths, work.projected)
    sequences = {**kept.sequences}
    for name, part in traced.after.items():
        if part is traced.output:
            sequences[name] = kept.output
    time, batch, units = kept.output.shape
    made = kept.output.new_zeros(time, len(of.blocks), batch, units)
    recurrent = [of.blocks.index(each) for each in gradient.h.values()]
    rows = work.recurrent_weight.view(len(recurrent), units, units)
    for t in reversed(work.times):
        before = t + 1 if work.reverse else t - 1
        values: dict[Any, Any] = {traced.output: kept.output[t], D_OUTPUT: d_output[t], D_HIDDEN: d_hidden}
        values |= {symbol(f"d.{name}"): part for name, part in d_state.items()}
        values |= dict(zip(of.kept.values, kept.values[t], strict=True))
        values |= dict(zip(traced.weights.values(), work.weights, strict=True))
        for name, sequence in sequences.items():
            old = sequence[before] if 0 <= before < time else starts[name]
            if going_on is not None and work.reverse and 0 <= before < time:
                old = torch.where(going_on[before], old, starts[name])
            values |= {traced.after[name]: sequence[t], traced.before[name]: old}
        for k, block in enumerate(evaluate(of.blocks, values)):
            made[t, k] = block
        d_before = dict(zip(names, evaluate(gradient.before.values(), values), strict=True))
        carried = values[of.carried] if hidden_part is not None else 0.0
        if going_on is not None:
            made[t].mul_(going_on[t])
        returned = carried + torch.einsum("kbi,kij->bj", made[t][recurrent], rows)
        if going_on is not None:
            d_before = {n: torch.where(going_on[t], p, d_state.get(n, p)) for n, p in d_before.items() if torch.is_tensor(p)}
            returned = torch.where(going_on[t], returned, d_hidden)
        d_hidden = returned
        d_state = {name: d_before[name] for name in d_state}
    d_start = dict(d_state)
    if hidden_part is not None:
        d_start[hidden_part] = d_hidden
    else:
        raise_to = of.unit.state_type(*(starts[name].detach().requires_grad_() for name in names))
        with torch.enable_grad():
            h = of.unit.hidden(raise_to)
        for name, part in zip(names, torch.autograd.grad(h, raise_to, d_hidden, allow_unused=True), strict=True):
            if part is not None:
                d_start[name] = d_start[name] + part
    return made, [d_start[name] for name in names]
