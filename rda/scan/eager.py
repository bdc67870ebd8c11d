"""Any unit over time in plain PyTorch, with its derived backward pass.

It runs on any device, and on CPUs without a compiler. What the backward pass needs of a step is
kept as it is for the compiled engines, and not the graph of autograd.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from rda.scan.memory import empty
from rda.scan.passes import Call, Results
from rda.scan.ragged import running
from rda.symbolic.derived import Derived
from rda.symbolic.expressions import Expression, evaluate, in_order, symbol
from rda.symbolic.gradient import D_HIDDEN, D_OUTPUT


class Eager:
    """A unit as operations on tensors."""

    def __init__(self, of: Derived) -> None:
        self.of = of

    def forward(self, call: Call, keep: bool) -> Results:
        input, weights, lengths = call.input, call.weights, call.lengths
        of, traced, units = self.of, self.of.traced, weights.recurrent.shape[1]
        time, batch = input.shape[:2]
        projected = input
        if weights.input is not None:
            projected = F.linear(input, weights.input, weights.bias)
        output = empty(input, time, batch, units)
        kept = of.kept if keep else of.kept._replace(sequences=(), values=())
        sequences = [empty(input, time, batch, units) for _ in kept.sequences]
        saved = empty(input, time, batch, max(len(kept.values), 1) * units)
        going_on = None if lengths is None else running(lengths, input).unbind(0)
        own = dict(zip(traced.weights.values(), weights.of_units, strict=True))
        nothing = torch.zeros_like(output[0])
        state = list(of.unit.filled(call.starts, nothing))
        h = nothing + of.first_hidden(state, nothing)
        transposed = weights.recurrent.t()
        results = (*traced.after.values(), traced.hidden, traced.output, *kept.values)
        constants = own | _numbers(results, nothing)
        for t in _times(time, call.reverse):
            gates = self._gates(projected[t], torch.mm(h, transposed), units)
            values: dict[Expression, Tensor] = dict(zip(of.gate_expressions, gates, strict=True))
            values |= constants | dict(zip(traced.before.values(), state, strict=True))
            found = [nothing + each for each in evaluate(results, values, nothing)]
            stepped, (new_h, o, *values_kept) = found[: len(state)], found[len(state) :]
            if going_on is not None:
                pairs = zip(stepped, state, strict=True)
                stepped = [torch.where(going_on[t], *pair) for pair in pairs]
                new_h = torch.where(going_on[t], new_h, h)
                o = torch.where(going_on[t], o, 0.0)
            state, h, output[t] = stepped, new_h, o
            for place, value in zip(saved[t].split(units, 1), values_kept, strict=False):
                place.copy_(value)
            for name, sequence in zip(kept.sequences, sequences, strict=True):
                sequence[t] = state[list(traced.after).index(name)]
        if lengths is not None:
            for sequence in sequences:
                sequence.masked_fill_(~running(lengths, input), 0.0)
        final = [torch.stack((part,)) for part in state]
        return Results(output, final, sequences, [saved] if keep else [])

    def _gates(self, projected: Tensor, recurrent: Tensor, units: int) -> Iterator[Tensor]:
        """The gates in the order of `Derived.gate_expressions`."""
        x_only, both, _ = map(len, self.of.gates)
        yield from projected[:, : x_only * units].split(units, 1) if x_only else ()
        if both:
            total = projected[:, x_only * units :] + recurrent[:, : both * units]
            yield from total.split(units, 1)
        yield from recurrent[:, both * units :].split(units, 1) if self.of.gates.h_only else ()

    def backward(
        self, call: Call, results: Results, d_output: Tensor, d_final: Sequence[Tensor | None]
    ) -> tuple[Tensor, list[Tensor]]:
        of, traced, weights, reverse = self.of, self.of.traced, call.weights, call.reverse
        units = weights.recurrent.shape[1]
        output, _, sequences, (saved,) = results
        time, batch, _ = output.shape
        going_on = None if call.lengths is None else running(call.lengths, output).unbind(0)
        d_blocks = empty(output, time, batch, len(of.blocks) * units)
        first = of.unit.filled(call.starts, output[0])
        own = dict(zip(traced.weights.values(), weights.of_units, strict=True))
        parts = [symbol(f"d.{name}") for name in traced.after]
        nothing = torch.zeros_like(output[0])
        d_state = [nothing if d is None else d.view_as(nothing) for d in d_final]
        d_hidden = nothing
        if traced.hidden_part is not None:
            place = list(traced.after).index(traced.hidden_part)
            d_hidden, d_state[place] = d_state[place], d_hidden
        known = self._sequences(sequences, output)
        gates = slice(len(of.gates.x_only) * units, sum(map(len, of.gates)) * units)
        targets = (*of.blocks, of.carried, *of.gradient.before.values())
        constants = own | _numbers(targets, nothing)
        for t in _times(time, not reverse):
            before = t + 1 if reverse else t - 1
            values: dict[Expression, Tensor] = {traced.output: output[t], **constants}
            for name, sequence in known:
                values[traced.after[name]] = sequence[t]
                values[traced.before[name]] = self._before(
                    sequence, getattr(first, name), before, going_on if reverse else None
                )
            values |= dict(zip(of.kept.values, saved[t].split(units, 1), strict=False))
            values |= {D_OUTPUT: d_output[t], D_HIDDEN: d_hidden}
            values |= dict(zip(parts, d_state, strict=True))
            found = evaluate(targets, values, nothing)
            row = d_blocks[t].split(units, 1)
            for block, gradient in zip(row, found, strict=False):
                block.copy_(gradient)
            carried, *d_before = found[len(row) :]
            if going_on is not None:
                d_blocks[t].masked_fill_(~going_on[t], 0.0)
            arrived = torch.mm(d_blocks[t, :, gates], weights.recurrent).add_(carried)
            d_before = [nothing + d for d in d_before]
            if going_on is not None:
                arrived = torch.where(going_on[t], arrived, d_hidden)
                pairs = zip(d_before, d_state, strict=True)
                d_before = [torch.where(going_on[t], new, old) for new, old in pairs]
            d_hidden, d_state = arrived, d_before
        values = dict(zip(traced.before.values(), first, strict=True)) | {D_HIDDEN: d_hidden}
        values |= dict(zip(parts, d_state, strict=True))
        d_start = evaluate(of.start_gradient.values(), values, nothing)
        return d_blocks, [nothing + d for d in d_start]

    def _sequences(self, sequences: list[Tensor], output: Tensor) -> list[tuple[str, Tensor]]:
        """The parts of the state that are known at every step, by name."""
        traced, kept = self.of.traced, zip(self.of.kept.sequences, sequences, strict=True)
        same = [name for name, part in traced.after.items() if part is traced.output]
        return [*kept, *((name, output) for name in same)]

    @staticmethod
    def _before(
        sequence: Tensor, first: Tensor, before: int, going_on: Sequence[Tensor] | None
    ) -> Tensor:
        """A part of the state before a step; a row that starts at the step has its start."""
        if not 0 <= before < len(sequence):
            return first
        if going_on is None:
            return sequence[before]
        return torch.where(going_on[before], sequence[before], first)


def _times(time: int, reverse: bool) -> Iterator[int]:
    return reversed(range(time)) if reverse else iter(range(time))


def _numbers(results: Iterable[Expression], like: Tensor) -> dict[Expression, Tensor]:
    """The numbers in expressions as tensors, made once for all steps."""
    return {
        each: like.new_full((), each.number)
        for each in in_order(results)
        if each.number is not None
    }
