"""A unit compiled for this machine's CPU: its step, written as C++, in the engine's frame."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rda.scan.addresses import Addresses, structure
from rda.scan.cpu.build import BuildError, load
from rda.scan.cpu.text import unit_text
from rda.scan.memory import empty
from rda.scan.passes import Call, Results
from rda.units.known import derived

if TYPE_CHECKING:
    from rda.symbolic.derived import Derived

SCALARS = {torch.float32: ("float", "int32_t"), torch.float64: ("double", "int64_t")}
"""The type of a number in C++ and an integer of its size, by dtype."""

# Fields in the order of the structs in frame.cpp.
FORWARD = "input input_weight bias weight lengths output saved start state sequences weights"
BACKWARD = "d_output weight output saved lengths d_blocks d_final start d_state sequences weights"


class Sizes(ctypes.Structure):
    """The struct of the same name in frame.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("time", "batch", "units", "inputs")),
        *((name, ctypes.c_int32) for name in ("reverse", "threads")),
    )


def source(of: Derived, dtype: torch.dtype) -> str:
    """The C++ text of a unit's kernel."""
    scalar, bits = SCALARS[dtype]
    folder = Path(__file__).parent
    vectors, frame = ((folder / name).read_text() for name in ("vectors.cpp", "frame.cpp"))
    defined = f"#define SCALAR {scalar}\n#define BITS {bits}\n"
    return "".join((defined, vectors, unit_text(of), frame))


class Native:
    """The compiled kernel of a unit, for tensors of one dtype."""

    def __init__(self, of: Derived, dtype: torch.dtype) -> None:
        self.of = of
        self.library = load(source(of, dtype))
        counts = {"sequences": len(of.kept.sequences), "weights": len(of.unit.weights)}
        counts |= dict.fromkeys(("start", "state", "d_final", "d_state"), len(of.unit.parts))
        arrays = {name: max(count, 1) for name, count in counts.items()}
        self._forward, self._backward = (
            structure("Work", {name: arrays.get(name, 0) for name in names.split()})
            for names in (FORWARD, BACKWARD)
        )

    def forward(self, call: Call, keep: bool) -> Results:
        """One direction of one layer over time."""
        input, weights = call.input, call.weights
        (time, batch, inputs), units = input.shape, weights.recurrent.shape[1]
        output, kept = empty(input, time, batch, units), self.of.kept
        state = [input.new_empty(1, batch, units) for _ in self.of.unit.parts]
        sequences, saved = [], []
        if keep:
            sequences = [empty(input, time, batch, units) for _ in kept.sequences]
            saved = [empty(input, time, batch, max(len(kept.values), 1) * units)]
        work = self._forward.of(
            input=input, input_weight=weights.input, bias=weights.bias, weight=weights.recurrent,
            lengths=call.lengths, output=output, saved=saved[0] if saved else None,
            start=call.start, state=state, sequences=sequences, weights=weights.of_units,
        )  # fmt: skip
        sizes = Sizes(time, batch, units, inputs, call.reverse, torch.get_num_threads())
        _run(self.library.rda_forward, work, sizes)
        return Results(output, state, sequences, saved)

    def backward(
        self, call: Call, results: Results, d_output: Tensor, d_final: Sequence[Tensor | None]
    ) -> tuple[Tensor, list[Tensor]]:
        """The gradients of all gates, (time, batch, blocks * hidden), and of the start."""
        output, _, sequences, (saved,) = results
        time, batch, units = output.shape
        d_blocks = empty(output, time, batch, len(self.of.blocks) * units)
        d_state = [output.new_empty(batch, units) for _ in self.of.unit.parts]
        work = self._backward.of(
            d_output=d_output, weight=call.weights.recurrent, output=output, saved=saved,
            lengths=call.lengths, d_blocks=d_blocks, d_final=d_final, start=call.start,
            d_state=d_state, sequences=sequences, weights=call.weights.of_units,
        )  # fmt: skip
        sizes = Sizes(time, batch, units, 0, call.reverse, torch.get_num_threads())
        _run(self.library.rda_backward, work, sizes)
        return d_blocks, d_state


def _run(function: Any, work: Addresses, sizes: Sizes) -> None:
    if function(ctypes.byref(work), ctypes.byref(sizes)) != 0:
        raise MemoryError(f"no memory to pack the weights of {sizes.units} units")


@cache
def compiled(key: str, dtype: torch.dtype) -> Native | str:
    """The compiled kernel of a unit, or why there is none; found out once per process."""
    try:
        return Native(derived(key), dtype)
    except BuildError as error:
        return str(error)
