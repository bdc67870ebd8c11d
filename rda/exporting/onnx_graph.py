"""The nodes of an ONNX graph, and of the graphs within its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor

from rda.symbolic.expressions import Expression, in_order
from rda.symbolic.onnx import OPERATORS, in_operators

TYPES = {
    torch.float32: onnx.TensorProto.FLOAT,
    torch.float64: onnx.TensorProto.DOUBLE,
    torch.int64: onnx.TensorProto.INT64,
    torch.bool: onnx.TensorProto.BOOL,
}
Shape = Sequence[int | str] | None


class Value(NamedTuple):
    """An input or output of a graph; a name among its sizes stands for any size."""

    name: str
    dtype: torch.dtype
    shape: Shape = None

    def info(self) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(self.name, TYPES[self.dtype], self.shape)


class Graph:
    """Nodes in the order in which they were added. Each value gets a name of its own.

    A graph within a node sees the values of the one around it, where all constants are kept.
    """

    def __init__(self, dtype: torch.dtype, outer: Graph | None = None) -> None:
        self.dtype = dtype
        self.nodes: list[onnx.NodeProto] = []
        self._main: Graph = self if outer is None else outer._main
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._tensors: list[onnx.TensorProto] = []
        self._numbers = count()

    def within(self) -> Graph:
        """A graph for a node of this one."""
        return Graph(self.dtype, self)

    def name(self, of: str) -> str:
        """A name that no other value has."""
        return f"{of}_{next(self._main._numbers)}"

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The output of a new node."""
        (output,) = self.add_many(operator, 1, *inputs, **attributes)
        return output

    def add_many(self, operator: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """The outputs of a new node."""
        names = [self.name(operator.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name=names[0], **attributes))
        return names

    def rename(self, value: str, name: str) -> None:
        """The value under the name that an output of the graph has."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=self.name(name)))

    def constant(self, value: Tensor) -> str:
        """The name of a constant; equal ones are one."""
        array = np.ascontiguousarray(value.detach().cpu().numpy()).reshape(value.shape)
        key = str(array.dtype), array.shape, array.tobytes()
        main = self._main
        if key not in main._constants:
            main._constants[key] = self.name("constant")
            main._tensors.append(numpy_helper.from_array(array, main._constants[key]))
        return main._constants[key]

    def integers(self, *values: int) -> str:
        """A constant list of whole numbers."""
        return self.constant(torch.tensor(values, dtype=torch.int64))

    def split(self, value: str, sizes: Sequence[int]) -> list[str]:
        """The value cut along its last dimension."""
        if len(sizes) < 2:
            return [value] * len(sizes)
        return self.add_many("Split", len(sizes), value, self.integers(*sizes), axis=-1)

    def compute(self, results: Iterable[Expression], names: Mapping[Expression, str]) -> list[str]:
        """The names of the results, from the names of what is known."""
        known = dict(names)
        results = in_operators(results, known, torch.finfo(self.dtype).tiny)
        for each in in_order(results, known):
            if each.number is not None:
                known[each] = self.constant(torch.tensor(each.number, dtype=self.dtype))
            elif each.function is None:
                raise KeyError(f"there is no value for {each}")
            else:
                arguments = (known[argument] for argument in each.arguments)
                known[each] = self.add(OPERATORS[each.function.name], *arguments)
        return [known[result] for result in results]

    def finished(
        self, name: str, inputs: Iterable[Value], outputs: Iterable[Value]
    ) -> onnx.GraphProto:
        """The graph with all of its nodes."""
        return helper.make_graph(
            self.nodes,
            name,
            [value.info() for value in inputs],
            [value.info() for value in outputs],
            self._tensors,
        )
