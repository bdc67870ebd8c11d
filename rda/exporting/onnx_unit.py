"""One direction of one layer as ONNX: a step from the unit's expressions, and a Scan over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rda.exporting.onnx_graph import Graph, Value
from rda.exporting.subject import Stack
from rda.scan.passes import Weights
from rda.symbolic.derived import Derived, Order
from rda.symbolic.expressions import Expression, as_number, symbols_in

Parts = list[str]


class UnitWriter:
    """Writes the steps of a unit.

    `shape` is the value that holds the shape of a part of the state, (batch, hidden).
    """

    def __init__(self, graph: Graph, stack: Stack, shape: str) -> None:
        self.graph, self.shape = graph, shape
        self.hidden_size = stack.hidden_size
        self.of = Derived(stack.unit)

    def project(self, input: str, weights: Weights, is_symbols: bool) -> str:
        """W x + b of all steps. Of symbols, which are one-hot, W x is a row of the transposed W."""
        assert weights.input is not None
        order = self.of.orders[0]
        weight = self.graph.constant(_ordered(weights.input, self.hidden_size, order).t())
        projected = (
            self.graph.add("Gather", weight, input)
            if is_symbols
            else self.graph.add("MatMul", input, weight)
        )
        if weights.bias is None:
            return projected
        bias = self.graph.constant(_ordered(weights.bias, self.hidden_size, order))
        return self.graph.add("Add", projected, bias)

    def scan(
        self, projected: str, weights: Weights, state: Parts, going_on: str | None, reverse: bool
    ) -> tuple[str, Parts]:
        """The output of every step and the final state.

        `going_on` has, for every step, which rows have not ended: (time, batch, 1).
        """
        graph, dtype = self.graph, self.graph.dtype
        body = graph.within()
        before = [body.name("state") for _ in state]
        x, row_goes_on = body.name("x"), body.name("going_on")
        inputs = [Value(name, dtype) for name in (*before, x)]
        sequences = [projected]
        after, output = self.step(body, x, weights, before)
        if going_on is not None:
            inputs.append(Value(row_goes_on, torch.bool))
            sequences.append(going_on)
            pairs = zip(after, before, strict=True)
            after = [body.add("Where", row_goes_on, *pair) for pair in pairs]
            nothing = body.constant(torch.zeros((), dtype=dtype))
            output = body.add("Where", row_goes_on, output, nothing)
        results = [body.name("result") for _ in (*after, output)]
        for value, result in zip((*after, output), results, strict=True):
            body.rename(value, result)
        *final, outputs = graph.add_many(
            "Scan",
            len(results),
            *state,
            *sequences,
            body=body.finished("step", inputs, [Value(name, dtype) for name in results]),
            num_scan_inputs=len(sequences),
            scan_input_directions=[int(reverse)] * len(sequences),
            scan_output_directions=[int(reverse)],
        )
        return outputs, final

    def step(self, graph: Graph, x: str, weights: Weights, state: Parts) -> tuple[Parts, str]:
        """The state after one step and its output, from W x + b and the state before."""
        traced = self.of.traced
        names: dict[Expression, str] = dict(zip(traced.before.values(), state, strict=True))
        own = zip(traced.weights.values(), weights.of_units, strict=True)
        names |= {each: graph.constant(weight) for each, weight in own}
        (h,) = self._computed(graph, [as_number(self.of.traced.start_hidden)], names)
        recurrent = _ordered(weights.recurrent, self.hidden_size, self.of.orders[1])
        product = graph.add("MatMul", h, graph.constant(recurrent.t()))
        gates = self._gates(graph, x, product)
        names |= dict(zip(self.of.gate_expressions, gates, strict=True))
        *after, output = self._computed(graph, (*traced.after.values(), traced.output), names)
        return after, output

    def _computed(
        self, graph: Graph, results: Sequence[Expression], names: dict[Expression, str]
    ) -> Parts:
        """The results, each (batch, hidden) even where it is the same for all rows."""
        found = graph.compute(results, names)
        return [
            value if _is_of_rows(result) else graph.add("Expand", value, self.shape)
            for result, value in zip(results, found, strict=True)
        ]

    def _gates(self, graph: Graph, x: str, product: str) -> Iterator[str]:
        """The gates in the order of `Derived.gate_expressions`."""
        x_only, both, h_only = map(len, self.of.gates)
        units = self.hidden_size
        shared = [both * units] if both else []
        of_x = graph.split(x, [units] * x_only + shared)
        of_h = graph.split(product, shared + [units] * h_only)
        yield from of_x[:x_only]
        if both:
            yield from graph.split(graph.add("Add", of_x[-1], of_h[0]), [units] * both)
        yield from of_h[len(shared) :]


def _is_of_rows(result: Expression) -> bool:
    return any(not name.startswith("w.") for name in symbols_in([result]))


def _ordered(weight: Tensor, units: int, order: Order) -> Tensor:
    """The blocks of a weight as `Derived.gates` has them."""
    return weight if order is None else torch.cat([weight.split(units)[place] for place in order])
