"""A unit over sequences: layout, layers, directions, packing and states as in torch.nn.LSTM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.utils.rnn import PackedSequence

from rda.checks import (
    check_dropout,
    check_features,
    check_flag,
    check_input,
    check_size,
    check_state,
)
from rda.modules import Device, UnitModule, record_call
from rda.packing import Packing
from rda.precision import autocast_off, compute_dtype, in_dtype, state_dtype
from rda.scan.dispatch import check_engine_name, choose, scan_layer
from rda.scan.engines import Work
from rda.scan.passes import Call
from rda.stacking import run_stack

Parts = tuple[Tensor, ...]


class SequenceLayer(UnitModule):
    """A unit over sequences: the base class of `rda.RDA`, `rda.RWA` and `rda.Recurrent`.

    A subclass says which unit it runs. Where its users carry another state than the unit's own, it
    says how one becomes the other: `_to_parts` and `_from_parts`.
    """

    weight_ih_l0: nn.Parameter
    _learned: Mapping[str, str]
    """Parts of the state that can be learned, each with the name of its parameter."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        definition: Any,
        *,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        device: Device,
        dtype: torch.dtype | None,
        learn_initial_state: bool,
        engine: str,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, definition)
        check_size("num_layers", num_layers)
        check_dropout(dropout, num_layers)
        check_flag("batch_first", batch_first)
        check_flag("learn_initial_state", learn_initial_state)
        check_engine_name(engine)
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bool(bidirectional)
        self.learn_initial_state = learn_initial_state
        self.engine = engine
        ends = ("", "_reverse")[: self._directions]
        self._suffixes = [f"_l{k}{end}" for k in range(num_layers) for end in ends]
        for k, suffix in enumerate(self._suffixes):
            below = input_size if k < self._directions else self._directions * hidden_size
            self._add_group(suffix, below, bias, device, dtype)
        for name in self._learned.values():
            learned = None
            if learn_initial_state:
                shape = (len(self._suffixes), hidden_size)
                learned = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, learned)
        self.reset_parameters()

    def _to_parts(self, state: Parts, dtype: torch.dtype) -> Parts:
        """The unit's state from the one that users carry."""
        return tuple(in_dtype(part, dtype) for part in state)

    def _from_parts(self, parts: Parts, dtype: torch.dtype) -> Any:
        """The state that users carry; `dtype` is that of the first part."""
        return tuple(in_dtype(part, dtype) for part in parts)

    def _state_names(self) -> tuple[str, ...]:
        """The names of what users carry."""
        return tuple(part.name for part in self._definition()[0].parts)

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters of each direction of each layer, grouped as in nn.LSTM."""
        names = ["weight_ih", "weight_hh", *(["bias"] if self.bias else [])]
        names += self._definition()[0].weights
        return [[getattr(self, name + suffix) for name in names] for suffix in self._suffixes]

    def reset_parameters(self) -> None:
        """Section 6.1: Xavier weights for each gate, biases as the unit says, mostly 0."""
        for suffix in self._suffixes:
            self._reset_group(suffix)
        for part in self._definition()[0].parts:
            learned = getattr(self, self._learned.get(part.name, ""), None)
            if learned is not None:
                nn.init.constant_(learned, part.start)

    def flatten_parameters(self) -> None:
        """Does nothing, because the weights need no particular layout. nn.LSTM has it."""

    def forward(
        self, input: Tensor | PackedSequence, state: Any = None, *, lengths: Tensor | None = None
    ) -> tuple[Any, Any]:
        """The output of every step and the final state.

        Args:
            input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or
                (time, input_size) for one sequence without a batch, or a PackedSequence.
            state: the parts of the state, each (num_layers * directions, batch, hidden_size), or
                without the batch for unbatched input. None means the unit's own start or, with
                `learn_initial_state`, the learned one.
            lengths: (batch,) integers from 0 to time, the number of steps of each sequence in a
                padded batch. The output is zero after a sequence's end, its final state is the one
                at its end, and the padding has no influence.

        Returns:
            The output, in the layout of the input with directions * hidden_size features, and the
            state to pass on when the sequence continues.
        """
        if isinstance(input, Proxy):
            return record_call(self, input, state, lengths=lengths)
        owner = type(self).__name__
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ValueError(f"{owner}: lengths should be None for a PackedSequence")
            return self._forward_packed(input, state)
        check_input(input, self.weight_ih_l0, (2, 3), owner)
        if input.dim() == 2:
            if lengths is not None:
                raise ValueError(f"{owner}: lengths should be None for unbatched input")
            return self._forward_unbatched(input, state)
        sequence = input.transpose(0, 1) if self.batch_first else input
        checked = self._checked(state, sequence, sequence.shape[1])
        output, final = self._run(sequence, checked, lengths)
        return output.transpose(0, 1) if self.batch_first else output, self._returned(final)

    def _forward_unbatched(self, input: Tensor, state: Any) -> tuple[Tensor, Any]:
        checked = self._checked(state, input)
        if checked is not None:
            checked = tuple(part.unsqueeze(1) for part in checked)
        output, final = self._run(input.unsqueeze(1), checked, None)
        return output.squeeze(1), self._returned(type(final)(part.squeeze(1) for part in final))

    def _forward_packed(self, input: PackedSequence, state: Any) -> tuple[PackedSequence, Any]:
        packing = Packing(input, type(self).__name__)
        check_features(input.data, self.weight_ih_l0, type(self).__name__)
        checked = self._checked(state, input.data, packing.batch)
        if checked is not None:
            checked = tuple(map(packing.sort, checked))
        output, final = self._run(packing.pad(input.data), checked, packing.lengths)
        return packing.pack(output), self._returned(type(final)(map(packing.unsort, final)))

    def _checked(self, state: Any, input: Tensor, *batch: int) -> Parts | None:
        """The parts of a state that was given."""
        if state is None:
            return None
        names, owner = self._state_names(), type(self).__name__
        if len(names) == 1 and isinstance(state, Tensor):
            state = (state,)
        shape = (len(self._suffixes), *batch, self.hidden_size)
        dtype = compute_dtype(input, self.weight_ih_l0)
        return check_state(state, names, shape, dtype, input.device, owner)

    def _returned(self, final: Any) -> Any:
        """A state of one part is a tensor, as it is of nn.GRU."""
        return final[0] if len(final) == 1 else final

    def _run(
        self, sequence: Tensor, state: Parts | None, lengths: Tensor | None
    ) -> tuple[Tensor, Any]:
        """All layers over one (time, batch, features) sequence."""
        if sequence.shape[0] == 0:
            raise RuntimeError(
                f"{type(self).__name__}: Expected sequence length to be larger than 0, got an "
                f"input of {sequence.shape[0]} steps"
            )
        dtype = compute_dtype(sequence, self.weight_ih_l0)
        start = self._start(state, sequence.shape[1], dtype)
        dropout = self.dropout if self.training else 0.0

        def run_group(k: int, below: Tensor) -> tuple[Tensor, Parts]:
            call = self._call(k, below, start[k], lengths)
            output, *final = scan_layer(call.in_dtype(dtype), self.engine)
            return output, tuple(final)

        with autocast_off(sequence):
            output, finals = run_stack(
                in_dtype(sequence, dtype), self.num_layers, self._directions, dropout, run_group
            )
            final = finals[0]
            if len(finals) > 1:
                final = tuple(map(torch.cat, zip(*finals, strict=True)))
            return output, self._from_parts(final, dtype if state is None else state[0].dtype)

    def _start(self, state: Parts | None, batch: int, dtype: torch.dtype) -> list[Parts]:
        """The start of each direction of each layer; empty for the unit's own."""
        wide = state_dtype(dtype)
        if state is not None:
            parts = self._to_parts(state, wide)
        elif self.learn_initial_state:
            parts = self._learned_start(batch, wide)
        else:
            return [()] * len(self._suffixes)
        return list(zip(*(part.unbind(0) for part in parts), strict=True))

    def engine_for(self, input: Tensor) -> str:
        """The name of the engine that runs this layer on such a batch."""
        sequence = input.transpose(0, 1) if self.batch_first else input
        sequence = in_dtype(sequence, compute_dtype(input, self.weight_ih_l0))
        return choose(self.engine, Work.of(self._call(0, sequence, ())))

    def first_call(self, sequence: Tensor, state: Any = None) -> Call:
        """What the first direction of the first layer does with a (time, batch, features) sequence.

        The state is what users carry.
        """
        batch = sequence.shape[1]
        start = self._start(self._checked(state, sequence, batch), batch, sequence.dtype)[0]
        return self._call(0, sequence, start)

    def _call(self, k: int, below: Tensor, start: Parts, lengths: Tensor | None = None) -> Call:
        """What one direction of one layer does with the sequence below it."""
        unit, key = self._definition()
        weights, reverse = self._group(self._suffixes[k], unit), k % self._directions == 1
        return Call(unit, key, below, weights, start, lengths, reverse)

    def _learned_start(self, batch: int, dtype: torch.dtype) -> Parts:
        shape = (len(self._suffixes), batch, self.hidden_size)
        found = []
        for part in self._definition()[0].parts:
            name = self._learned.get(part.name)
            if name is None:
                found.append(self.weight_ih_l0.new_full(shape, part.start, dtype=dtype))
            else:
                found.append(getattr(self, name).unsqueeze(1).expand(shape).to(dtype))
        return tuple(found)

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)}")
        text = ", ".join(shown) + self._own_repr()
        if self.learn_initial_state:
            text += ", learn_initial_state=True"
        return text if self.engine == "auto" else f"{text}, engine={self.engine}"

    def _own_repr(self) -> str:
        """What a subclass adds to the description."""
        return ""
