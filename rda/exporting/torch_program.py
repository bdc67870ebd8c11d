"""A subject as a program of torch.export that consists of torch's own operators."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from rda.exporting.checking import Inputs, Runner
from rda.exporting.subject import ExportError, Form, Subject
from rda.scan.passes import Weights
from rda.scan.ragged import running
from rda.symbolic.expressions import evaluate

if TYPE_CHECKING:
    from rda.units import Unit

EXAMPLE_TIME, EXAMPLE_BATCH = 3, 2
"""Sizes with which the program is traced; torch would take a size of 1 for a constant."""


def written(subject: Subject, form: Form) -> bytes:
    """The content of the file. Its program is called as the module is."""
    sizes = {Dim("time", min=1): EXAMPLE_TIME, Dim("batch", min=1): EXAMPLE_BATCH}
    given, dynamic = _example(subject, form, sizes)
    positional = tuple(given[name] for name in ("input", "state") if name in given)
    named = {"lengths": given["lengths"]} if form.with_lengths else {}
    try:
        with torch.no_grad():
            portable = _Portable(subject, form).eval()
            program = torch.export.export(portable, positional, named, dynamic_shapes=dynamic)
    except Exception as error:  # what another version of torch raises where it cannot loop
        reason = str(error).strip().partition("\n")[0]
        raise ExportError(f"torch {torch.__version__} cannot export this: {reason}") from error
    file = io.BytesIO()
    torch.export.save(program, file, extra_files=dict(subject.facts))
    return file.getvalue()


def runner(content: bytes, subject: Subject) -> Runner:
    """The program as it is read from the file."""
    program = torch.export.load(io.BytesIO(content)).module()

    def run(inputs: Inputs) -> Sequence[Tensor]:
        given = [inputs["input"], *([_carried(inputs["state"])] if "state" in inputs else [])]
        named = {"lengths": inputs["lengths"]} if "lengths" in inputs else {}
        output, final = program(*given, **named)
        return [output, *_parts(final)]

    return run


def _example(
    subject: Subject, form: Form, sizes: dict[Dim, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs by name, and which of their sizes may change."""
    stack, (time, batch) = subject.stack, sizes
    steps = [batch] if form.one_step else [batch, time] if stack.batch_first else [time, batch]
    shape = [sizes[each] for each in steps]
    given: dict[str, Any] = {"input": torch.zeros(shape, dtype=torch.int64)}
    dynamic: dict[str, Any] = {"input": dict(enumerate(steps))}
    if subject.symbols is None:
        given["input"] = torch.zeros(*shape, stack.input_size, dtype=stack.dtype)
    if form.takes_state:
        rows = [part.expand(-1, sizes[batch], -1).clone() for part in stack.start]
        given["state"], dynamic["state"] = _carried(rows), _carried([{1: batch} for _ in rows])
    if form.with_lengths:
        given["lengths"] = torch.ones(sizes[batch], dtype=torch.int64)
        dynamic["lengths"] = {0: batch}
    return given, dynamic


def _carried(parts: Any) -> Any:
    """A state of one part is a tensor, as a layer's is."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def _parts(state: Any) -> Sequence[Tensor]:
    return (state,) if isinstance(state, Tensor) else state


class _Portable(nn.Module):
    """Computes what the module does, by the unit's own functions, with a loop that torch knows."""

    embedding: Tensor | None

    def __init__(self, subject: Subject, form: Form) -> None:
        super().__init__()
        stack = subject.stack
        self.subject, self.stack, self.form = subject._replace(facts={}), stack, form
        self.groups = nn.ModuleList(_Group(stack.unit, weights) for weights in stack.groups)
        self.start = _Tensors(stack.start)
        self.readout = _Tensors(subject.readout or ())
        self.register_buffer("embedding", subject.embedding)

    def forward(self, input: Tensor, state: Any = None, lengths: Tensor | None = None) -> Any:
        stack, form = self.stack, self.form
        sequence = self._encoded(input)
        exchanged = stack.batch_first and not form.one_step
        if form.one_step:
            sequence = sequence.unsqueeze(0)
        elif exchanged:
            sequence = sequence.transpose(0, 1)
        batch = sequence.shape[1]
        carried = self.start.values() if state is None else _parts(state)
        start = [part.expand(-1, batch, -1).contiguous() for part in stack.to_parts(*carried)]
        is_layer = self.subject.readout is None
        output, final = self._run(sequence, start, lengths if is_layer else None)
        if form.one_step:
            output = output.squeeze(0)
        elif exchanged:
            output = output.transpose(0, 1)
        final = _carried(stack.from_parts(*final))
        return output if is_layer else self._readout(output, lengths), final

    def _encoded(self, input: Tensor) -> Tensor:
        symbols = self.subject.symbols
        if self.embedding is not None:
            return F.embedding(input, self.embedding)
        return input if symbols is None else F.one_hot(input, symbols).to(self.stack.dtype)

    def _readout(self, output: Tensor, lengths: Tensor | None) -> Tensor:
        if not self.subject.reads_every_step and not self.form.one_step:
            rows = torch.arange(output.shape[1])
            output = output[-1] if lengths is None else output[lengths - 1, rows]
        return F.linear(output, *self.readout.values())

    def _run(
        self, sequence: Tensor, start: list[Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        stack = self.stack
        going_on = None if lengths is None else running(lengths, sequence)
        finals = []
        for layer in range(stack.layers):
            outputs = []
            for direction in range(stack.directions):
                k = layer * stack.directions + direction
                group: Any = self.groups[k]
                state = [part[k] for part in start]
                if self.form.one_step:
                    final, output = group.step(state, group.projected(sequence)[0])
                    output = output.unsqueeze(0)
                else:
                    final, output = group(sequence, state, going_on, direction == 1)
                outputs.append(output)
                finals.append(final)
            sequence = torch.cat(outputs, -1)
        return sequence, [torch.stack(part) for part in zip(*finals, strict=True)]


class _Tensors(nn.Module):
    """Tensors that a program contains."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        super().__init__()
        for place, tensor in enumerate(tensors):
            self.register_buffer(str(place), tensor)

    def values(self) -> list[Tensor]:
        return list(self.buffers())


class _Group(nn.Module):
    """One direction of one layer."""

    input: Tensor
    bias: Tensor | None
    recurrent: Tensor

    def __init__(self, unit: Unit, weights: Weights) -> None:
        super().__init__()
        self.unit = unit
        for name in ("input", "bias", "recurrent"):
            self.register_buffer(name, getattr(weights, name))
        self.own = _Tensors(weights.of_units)

    def projected(self, sequence: Tensor) -> Tensor:
        return F.linear(sequence, self.input, self.bias)

    def forward(
        self, sequence: Tensor, start: list[Tensor], going_on: Tensor | None, reverse: bool
    ) -> tuple[list[Tensor], Tensor]:
        """The final state and the output of every step."""
        from torch._higher_order_ops.scan import scan

        projected = self.projected(sequence)
        if going_on is None:
            final, output = scan(self.step, start, projected, reverse=reverse)
        else:
            final, output = scan(self.masked, start, (projected, going_on), reverse=reverse)
        return final, output

    def step(self, state: list[Tensor], x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The state and the output after one step, from the state before it and W x + b."""
        traced, nothing = self.unit.traced, torch.zeros_like(state[0])
        values = dict(zip(traced.before.values(), state, strict=True))
        (h,) = evaluate([traced.start_hidden], values, nothing)
        product = F.linear(nothing + h, self.recurrent)
        values |= zip(traced.x.values(), x.chunk(len(traced.x), -1), strict=True)
        values |= zip(traced.h.values(), product.chunk(len(traced.h), -1), strict=True)
        values |= zip(traced.weights.values(), self.own.values(), strict=True)
        *after, output = evaluate((*traced.after.values(), traced.output), values, nothing)
        # Results of a loop may be neither views of others nor numbers.
        return [nothing + part for part in after], nothing + output

    def masked(self, state: list[Tensor], x: tuple[Tensor, Tensor]) -> tuple[list[Tensor], Tensor]:
        """The same for the rows that go on; others keep their state."""
        projected, goes_on = x
        after, output = self.step(state, projected)
        kept = [torch.where(goes_on, *pair) for pair in zip(after, state, strict=True)]
        return kept, torch.where(goes_on, output, 0.0)
