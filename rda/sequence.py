"""A unit over sequences: layout, layers, directions, packing and states as in torch.nn.LSTM."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.utils.rnn import PackedSequence

from rda.activations import Choices
from rda.checks import (
    check_dropout,
    check_features,
    check_flag,
    check_input,
    check_size,
    check_state,
)
from rda.equations import LogState, no_history
from rda.packing import Packing
from rda.precision import autocast_off, compute_dtype, in_dtype, state_dtype
from rda.scan.dispatch import check_engine_name, scan_layer, unit_of
from rda.scan.passes import Call, Weights
from rda.stacking import run_stack
from rda.state import State, from_log, to_log
from rda.unit import Device, UnitModule, record_call

GivenState = tuple[Tensor, Tensor] | None


class SequenceLayer(UnitModule):
    """The base class of `rda.RDA` and `rda.RWA`."""

    weight_ih_l0: nn.Parameter
    initial_average: nn.Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        device: Device,
        dtype: torch.dtype | None,
        choices: Choices,
        learn_initial_state: bool,
        engine: str,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, choices)
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
        learned = None
        if learn_initial_state:
            shape = (len(self._suffixes), hidden_size)
            learned = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.register_parameter("initial_average", learned)
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters of each direction of each layer, grouped as in nn.LSTM."""
        names = ("weight_ih", "weight_hh", "bias")[: 3 if self.bias else 2]
        return [[getattr(self, name + suffix) for name in names] for suffix in self._suffixes]

    def reset_parameters(self) -> None:
        """Section 6.1: Xavier weights for each gate, biases 0, except 1 for the discount gate."""
        for suffix in self._suffixes:
            self._reset_group(suffix)
        if self.initial_average is not None:
            nn.init.zeros_(self.initial_average)

    def flatten_parameters(self) -> None:
        """Does nothing, because the weights need no particular layout. nn.LSTM has it."""

    @overload
    def forward(
        self, input: Tensor, state: GivenState = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]: ...
    @overload
    def forward(
        self, input: PackedSequence, state: GivenState = None, *, lengths: None = None
    ) -> tuple[PackedSequence, State]: ...
    def forward(
        self,
        input: Tensor | PackedSequence,
        state: GivenState = None,
        *,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor | PackedSequence, State]:
        """The output of every step and the final state.

        Args:
            input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or
                (time, input_size) for one sequence without a batch, or a PackedSequence.
            state: (average, weight), each (num_layers * directions, batch, hidden_size), or
                without the batch for unbatched input. None and zeros both mean no history. With
                `learn_initial_state`, None means the learned start.
            lengths: (batch,) integers from 0 to time, the number of steps of each sequence in a
                padded batch. The output is zero after a sequence's end, its final state is the one
                at its end, and the padding has no influence.

        Returns:
            The output, in the layout of the input with directions * hidden_size features, and the
            `State` to pass on when the sequence continues.
        """
        if isinstance(input, Proxy):
            return record_call(self, input, state, lengths=lengths)
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ValueError(
                    f"{type(self).__name__}: lengths should be None for a PackedSequence"
                )
            return self._forward_packed(input, state)
        check_input(input, self.weight_ih_l0, (2, 3), type(self).__name__)
        if input.dim() == 2:
            if lengths is not None:
                raise ValueError(
                    f"{type(self).__name__}: lengths should be None for unbatched input"
                )
            return self._forward_unbatched(input, state)
        sequence = input.transpose(0, 1) if self.batch_first else input
        checked = None
        if state is not None:
            checked = self._check_batched(state, sequence, sequence.shape[1])
        output, final = self._run(sequence, checked, lengths)
        return output.transpose(0, 1) if self.batch_first else output, final

    if TYPE_CHECKING:
        __call__ = forward

    def _forward_unbatched(self, input: Tensor, state: GivenState) -> tuple[Tensor, State]:
        checked = None
        if state is not None:
            given = self._check_state(state, input, len(self._suffixes), self.hidden_size)
            checked = State(*(part.unsqueeze(1) for part in given))
        output, final = self._run(input.unsqueeze(1), checked, None)
        return output.squeeze(1), State(*(part.squeeze(1) for part in final))

    def _forward_packed(
        self, input: PackedSequence, state: GivenState
    ) -> tuple[PackedSequence, State]:
        packing = Packing(input, type(self).__name__)
        check_features(input.data, self.weight_ih_l0, type(self).__name__)
        checked = None
        if state is not None:
            given = self._check_batched(state, input.data, packing.batch)
            checked = State(*map(packing.sort, given))
        output, final = self._run(packing.pad(input.data), checked, packing.lengths)
        return packing.pack(output), State(*map(packing.unsort, final))

    def _check_batched(self, state: tuple[Tensor, Tensor], input: Tensor, batch: int) -> State:
        return self._check_state(state, input, len(self._suffixes), batch, self.hidden_size)

    def _check_state(self, state: tuple[Tensor, Tensor], input: Tensor, *shape: int) -> State:
        dtype = compute_dtype(input, self.weight_ih_l0)
        return check_state(state, shape, dtype, input.device, type(self).__name__)

    def _run(
        self, sequence: Tensor, state: State | None, lengths: Tensor | None
    ) -> tuple[Tensor, State]:
        """All layers over one (time, batch, features) sequence."""
        if sequence.shape[0] == 0:
            raise RuntimeError(
                f"{type(self).__name__}: Expected sequence length to be larger than 0, got an "
                f"input of {sequence.shape[0]} steps"
            )
        dtype = compute_dtype(sequence, self.weight_ih_l0)
        start = self._start(state, sequence.shape[1], dtype)
        dropout = self.dropout if self.training else 0.0

        def run_group(k: int, below: Tensor) -> tuple[Tensor, LogState]:
            return self._run_group(k, below, start[k], lengths)

        with autocast_off(sequence):
            output, finals = run_stack(
                in_dtype(sequence, dtype), self.num_layers, self._directions, dropout, run_group
            )
            final = finals[0]
            if len(finals) > 1:
                final = LogState(*map(torch.cat, zip(*finals, strict=True)))
            return output, from_log(final, dtype if state is None else state.average.dtype)

    def _run_group(
        self, k: int, sequence: Tensor, start: LogState | None, lengths: Tensor | None
    ) -> tuple[Tensor, LogState]:
        weight_ih, weight_hh, bias = self._group(self._suffixes[k])
        dtype = sequence.dtype
        if weight_ih.dtype != dtype:
            weight_ih, weight_hh = weight_ih.to(dtype), weight_hh.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        reverse = k % self._directions == 1
        weights = Weights(weight_ih, bias, weight_hh)
        call = Call(*unit_of(self.choices), sequence, weights, start or (), lengths, reverse)
        output, *final = scan_layer(call, self.engine)
        return output, LogState(*final)

    def _start(
        self, state: State | None, batch: int, dtype: torch.dtype
    ) -> Sequence[LogState | None]:
        wide = state_dtype(dtype)
        if state is not None:
            started = to_log(state, wide)
        elif self.initial_average is not None:
            average = self.initial_average.unsqueeze(1)
            started = no_history(average.expand(-1, batch, -1).to(wide))
        else:
            return [None] * len(self._suffixes)
        return [LogState(r, l) for r, l in zip(*(part.unbind(0) for part in started), strict=True)]

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
        text = ", ".join(shown) + self._choices_repr()
        if self.learn_initial_state:
            text += ", learn_initial_state=True"
        return text if self.engine == "auto" else f"{text}, engine={self.engine}"
