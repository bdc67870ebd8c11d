"""A subject as an ONNX file of standard operators."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnxruntime
import torch
from onnx import helper
from torch import Tensor

import rda
from rda.exporting.checking import Inputs, Runner
from rda.exporting.onnx_graph import Graph, Value
from rda.exporting.onnx_unit import UnitWriter
from rda.exporting.subject import Form, Subject
from rda.symbolic.expressions import symbol

OPSET, IR_VERSION = 17, 8
"""Of 2022: what has been released since reads it, and nothing here needs newer operators."""
BATCH, TIME, STATE_BATCH = "batch", "time", "state_batch"


def written(subject: Subject, form: Form) -> bytes:
    """The file's content."""
    graph = _Writer(subject, form).written()
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="rda-torch",
        producer_version=rda.__version__,
    )
    helper.set_model_props(model, dict(subject.facts))
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def runner(content: bytes, subject: Subject) -> Runner:
    """The file in onnxruntime, on one core."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [f"initial_{name}" for name in subject.stack.names]

    def run(inputs: Inputs) -> Sequence[Tensor]:
        parts = dict(zip(names, inputs.get("state", ()), strict=False))
        given = {name: value for name, value in inputs.items() if name != "state"} | parts
        results = session.run(None, {name: value.numpy() for name, value in given.items()})
        return [torch.from_numpy(result) for result in results]

    return run


def inputs_of(subject: Subject, form: Form) -> list[Value]:
    """What the file takes."""
    stack = subject.stack
    steps = [] if form.one_step else [BATCH, TIME] if stack.batch_first else [TIME, BATCH]
    shape: list[int | str] = [*(steps or [BATCH])]
    if subject.symbols is None:
        shape.append(stack.input_size)
    dtype = stack.dtype if subject.symbols is None else torch.int64
    found = [Value("input", dtype, shape)]
    if form.takes_state:
        sizes = (len(stack.groups), STATE_BATCH, stack.hidden_size)
        found += [Value(f"initial_{name}", stack.dtype, sizes) for name in stack.names]
    if form.with_lengths:
        found.append(Value("lengths", torch.int64, [BATCH]))
    return found


def outputs_of(subject: Subject, form: Form) -> list[Value]:
    """What it gives."""
    stack, readout = subject.stack, subject.readout
    every_step = not form.one_step and subject.reads_every_step
    shape: list[int | str] = [BATCH]
    if every_step:
        shape = [BATCH, TIME] if stack.batch_first else [TIME, BATCH]
    features = stack.directions * stack.hidden_size if readout is None else len(readout[1])
    sizes = (len(stack.groups), BATCH, stack.hidden_size)
    name = "output" if readout is None else "prediction"
    return [
        Value(name, stack.dtype, [*shape, features]),
        *(Value(f"final_{name}", stack.dtype, sizes) for name in stack.names),
    ]


class _Writer:
    def __init__(self, subject: Subject, form: Form) -> None:
        self.subject, self.stack, self.form = subject, subject.stack, form
        self.graph = Graph(self.stack.dtype)
        time_first = form.one_step or not self.stack.batch_first
        self.input = "input" if time_first else self._exchanged("input")
        add, integers = self.graph.add, self.graph.integers
        place = 0 if form.one_step else 1
        self.batch = add("Shape", self.input, start=place, end=place + 1)
        self.row_shape = add("Concat", self.batch, integers(self.stack.hidden_size), axis=0)

    def written(self) -> onnx.GraphProto:
        output, final = self._stack()
        if self.subject.readout is not None:
            output = self._readout(output)
        elif self.stack.batch_first and not self.form.one_step:
            output = self._exchanged(output)
        outputs = outputs_of(self.subject, self.form)
        for value, result in zip((output, *final), outputs, strict=True):
            self.graph.rename(value, result.name)
        return self.graph.finished("rda", inputs_of(self.subject, self.form), outputs)

    def _exchanged(self, sequence: str) -> str:
        of_symbols = self.subject.symbols is not None and sequence == "input"
        return self.graph.add("Transpose", sequence, perm=[1, 0] if of_symbols else [1, 0, 2])

    def _stack(self) -> tuple[str, list[str]]:
        """The output of the last layer and the final state that users carry."""
        add, stack = self.graph.add, self.stack
        writer = UnitWriter(self.graph, stack, self.row_shape)
        start, going_on = self._start(), self._going_on()
        sequence, is_symbols = self._encoded()
        finals = []
        for layer in range(stack.layers):
            outputs = []
            for direction in range(stack.directions):
                k = layer * stack.directions + direction
                place = self.graph.constant(torch.tensor(k))
                state = [add("Gather", part, place) for part in start]
                weights = stack.groups[k]
                projected = writer.project(sequence, weights, is_symbols)
                if self.form.one_step:
                    final, output = writer.step(self.graph, projected, weights, state)
                else:
                    reverse = direction == 1
                    output, final = writer.scan(projected, weights, state, going_on, reverse)
                outputs.append(output)
                finals.append(final)
            sequence = outputs[0] if len(outputs) == 1 else add("Concat", *outputs, axis=-1)
            is_symbols = False
        return sequence, self._final(finals)

    def _encoded(self) -> tuple[str, bool]:
        """What the first layer reads, and whether it is numbers of symbols."""
        embedding = self.subject.embedding
        if embedding is None:
            return self.input, self.subject.symbols is not None
        return self.graph.add("Gather", self.graph.constant(embedding), self.input), False

    def _start(self) -> list[str]:
        """Each part of the unit's state, (groups, batch, hidden)."""
        stack, graph = self.stack, self.graph
        shape = graph.add("Concat", graph.integers(len(stack.groups)), self.row_shape, axis=0)
        if self.form.takes_state:
            given = [symbol(f"initial.{name}") for name in stack.names]
            names = [f"initial_{name}" for name in stack.names]
            parts = graph.compute(stack.to_parts(*given), dict(zip(given, names, strict=True)))
        else:
            parts = [graph.constant(part) for part in stack.to_parts(*stack.start)]
        return [graph.add("Expand", part, shape) for part in parts]

    def _final(self, finals: list[list[str]]) -> list[str]:
        graph = self.graph
        axis = graph.integers(0)
        parts = []
        for group_parts in zip(*finals, strict=True):
            rows = [graph.add("Unsqueeze", part, axis) for part in group_parts]
            parts.append(rows[0] if len(rows) == 1 else graph.add("Concat", *rows, axis=0))
        known = [symbol(f"final.{part.name}") for part in self.stack.unit.parts]
        return graph.compute(self.stack.from_parts(*known), dict(zip(known, parts, strict=True)))

    def _going_on(self) -> str | None:
        """Which rows have not ended at each step, (time, batch, 1), where a layer takes lengths."""
        if not self.form.with_lengths or self.subject.readout is not None:
            return None
        add, axis = self.graph.add, self.graph.integers(-1)
        times = self._range(add("Shape", self.input, start=0, end=1))
        return add("Unsqueeze", add("Less", add("Unsqueeze", times, axis), "lengths"), axis)

    def _range(self, length: str) -> str:
        zero, one = (self.graph.constant(torch.tensor(each)) for each in (0, 1))
        return self.graph.add("Range", zero, self.graph.add("Squeeze", length), one)

    def _readout(self, output: str) -> str:
        """The model's answers: at every step, or at the end of each row."""
        add, graph, subject = self.graph.add, self.graph, self.subject
        assert subject.readout is not None
        weight, bias = subject.readout
        if not subject.reads_every_step and not self.form.one_step:
            if self.form.with_lengths:
                axis = graph.integers(-1)
                last = add("Sub", "lengths", graph.integers(1))
                places = [add("Unsqueeze", each, axis) for each in (last, self._range(self.batch))]
                output = add("GatherND", output, add("Concat", *places, axis=-1))
            else:
                output = add("Gather", output, graph.constant(torch.tensor(-1)))
        return add("Add", add("MatMul", output, graph.constant(weight.t())), graph.constant(bias))
