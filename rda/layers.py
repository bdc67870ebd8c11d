"""RDA and RWA over sequences, with the interface of torch.nn.LSTM."""

import copy
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rda.activations import Activation, AttentionName, Choices, OutputName
from rda.equations import LogState
from rda.modules import Averaging, Device
from rda.scan.engines import EngineName
from rda.sequence import Parts, SequenceLayer
from rda.state import State, from_log, to_log
from rda.units import Unit
from rda.units.known import key_of

GivenState = tuple[Tensor, Tensor] | None


class AveragingLayer(Averaging, SequenceLayer):
    """The base class of `RDA` and `RWA`, whose state is an average and its weight."""

    initial_average: nn.Parameter | None
    _learned: Mapping[str, str] = MappingProxyType({"r": "initial_average"})

    def _state_names(self) -> tuple[str, ...]:
        return State._fields

    def _to_parts(self, state: Parts, dtype: torch.dtype) -> Parts:
        return to_log(State(*state), dtype)

    def _from_parts(self, parts: Parts, dtype: torch.dtype) -> State:
        return from_log(LogState(*parts), dtype)

    def _own_repr(self) -> str:
        return self._choices_repr()

    if TYPE_CHECKING:

        @overload
        def forward(
            self, input: Tensor, state: GivenState = None, *, lengths: Tensor | None = None
        ) -> tuple[Tensor, State]: ...
        @overload
        def forward(
            self, input: PackedSequence, state: GivenState = None, *, lengths: None = None
        ) -> tuple[PackedSequence, State]: ...
        def forward(self, *args: Any, **options: Any) -> Any: ...

        __call__ = forward


class RDA(AveragingLayer):
    """The Recurrent Discounted Attention unit over sequences (section 5).

        z_t     = u_t * tanh(g_t)                              features
        a_t     = f_a(W_a . [x_t, h_{t-1}] + b_a)              attention
        gamma_t = sigma(W_gamma . [x_t, h_{t-1}] + b_gamma)    discount
        h_t     = f_h(n_t / d_t),   o_t = f_o(h_t)             average and output, with
        n_t = n_{t-1} gamma_t + z_t a_t   and   d_t = d_{t-1} gamma_t + a_t

    It is called like nn.LSTM: `output, (average, weight) = layer(input, (average, weight))`.

    Args:
        input_size: number of input features at each step.
        hidden_size: number of units, which is the number of output features.
        num_layers: number of stacked layers. Each reads the output of the layer below it.
        bias: whether the gates have biases.
        batch_first: input and output are (batch, time, features). States keep their layout.
        dropout: probability of dropout on the output of every layer except the last.
        bidirectional: also run each layer from the end to the start, and concatenate the outputs.
        attention: f_a, one of "exp", "relu", "softplus", "sigmoid", or a callable.
        hidden: f_h, "identity" or "tanh", or a callable.
        output: f_o, "identity" or "tanh", or a callable.
        learn_initial_state: learn the average from which a sequence starts. It has no weight: the
            gates of the first step see it, and the first features replace it.
        engine: "auto" for the fastest one that can run, or the name of an engine, which raises
            `rda.EngineUnavailableError` if it cannot run. `rda doctor` lists the engines.

    Parameters (k is the layer; the backward direction has the suffix `_reverse`):
        weight_ih_l{k}: (4 * hidden_size, features), blocks u, g, a, gamma.
        weight_hh_l{k}: (3 * hidden_size, hidden_size), blocks g, a, gamma.
        bias_l{k}: (4 * hidden_size), blocks u, g, a, gamma.
        initial_average: (num_layers * directions, hidden_size), with `learn_initial_state`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        attention: AttentionName | Activation = "exp",
        hidden: OutputName | Activation = "identity",
        output: OutputName | Activation = "tanh",
        learn_initial_state: bool = False,
        engine: EngineName = "auto",
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            Choices(attention, hidden, output),
            num_layers=num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
            learn_initial_state=learn_initial_state,
            engine=engine,
        )


class RWA(AveragingLayer):
    """The Recurrent Weighted Average over sequences (section 3), the predecessor of RDA.

    f_a, f_h and f_o are exp, tanh and the identity, and the past is never discounted. Arguments,
    parameters and state are those of `RDA`, without the three functions and the gamma blocks.
    """

    _default_choices = Choices("exp", "tanh", "identity", discount=False)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        learn_initial_state: bool = False,
        engine: EngineName = "auto",
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            self._default_choices,
            num_layers=num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
            learn_initial_state=learn_initial_state,
            engine=engine,
        )


class Recurrent(SequenceLayer):
    """Any unit over sequences, yours too: docs/units.md shows how to write one.

    It is called like nn.LSTM: `output, state = layer(input, state)`. The state is a tuple with the
    parts that the unit's `state` names; where that is one, it is the tensor itself, as nn.GRU's.

    Args:
        unit: an instance of a subclass of `rda.Unit`, such as `rda.units.LSTM()`.
        learn_initial_state: learn the state from which a sequence starts.
        Others are as in `RDA`.

    Parameters (k is the layer; the backward direction has the suffix `_reverse`):
        weight_ih_l{k}: (inputs * hidden_size, features), blocks in the order of `unit.inputs`.
        weight_hh_l{k}: (recurrent * hidden_size, hidden_size), in the order of `unit.recurrent`.
        bias_l{k}: (inputs * hidden_size), blocks as in weight_ih.
        {name}_l{k}: (hidden_size) for each name in `unit.weights`.
        initial_{part}: (num_layers * directions, hidden_size), with `learn_initial_state`.
    """

    unit: Unit

    def __init__(
        self,
        unit: Unit,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        learn_initial_state: bool = False,
        engine: EngineName = "auto",
    ) -> None:
        if not isinstance(unit, Unit):
            given = unit.__name__ if isinstance(unit, type) else type(unit).__name__
            kind = "the class " if isinstance(unit, type) else ""
            raise TypeError(f"unit should be an instance of rda.Unit, got: {kind}{given}")
        super().__init__(
            input_size,
            hidden_size,
            unit,
            num_layers=num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
            learn_initial_state=learn_initial_state,
            engine=engine,
        )

    def _define(self, unit: Unit) -> None:
        self.unit = unit = copy.copy(unit)  # later changes of the other one are not this layer's
        unit.traced  # noqa: B018 - raises where the unit does what it may not
        self._key = key_of(unit)
        finite = (part.name for part in unit.parts if math.isfinite(part.start))
        self._learned = {name: f"initial_{name}" for name in finite}

    def _definition(self) -> tuple[Unit, str]:
        return self.unit, self._key

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._key = key_of(self.unit)  # which another process may not know yet

    def extra_repr(self) -> str:
        return f"{type(self.unit).__name__}, {super().extra_repr()}"
