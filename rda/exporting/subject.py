"""What is exported: a module as plain values, whatever the file will be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from rda.baselines import GRU, LSTM
from rda.layers import AveragingLayer
from rda.scan.passes import Weights
from rda.sequence import SequenceLayer
from rda.state import State
from rda.symbolic.functions import log_from_weight, softplus
from rda.training.model import SequenceModel

if TYPE_CHECKING:
    from torch import nn

    from rda.units import Unit

EXPORTED = (torch.float32, torch.float64)
"""The dtypes in which a file computes."""


class ExportError(ValueError):
    """A module cannot be exported as asked. Nothing was written; the message says why."""


class Form(NamedTuple):
    """What a file shall take."""

    one_step: bool = False
    """A single step, without a dimension of time."""
    with_state: bool = False
    """The state to start from; a single step always takes it."""
    with_lengths: bool = False
    """The number of steps of each row."""

    @property
    def takes_state(self) -> bool:
        return self.one_step or self.with_state


Conversion = Callable[..., tuple[Any, ...]]


class Stack(NamedTuple):
    """Layers and directions of one unit."""

    unit: Unit
    groups: tuple[Weights, ...]
    """For each direction of each layer, with gates in the order of the unit's definition."""
    directions: int
    batch_first: bool
    names: tuple[str, ...]
    """Of the parts of the state that users carry."""
    start: tuple[Tensor, ...]
    """The state from which a sequence starts, (groups, 1, hidden) each, as users carry it."""
    to_parts: Conversion
    """The unit's state from the one that users carry: of tensors, or of expressions."""
    from_parts: Conversion

    @property
    def layers(self) -> int:
        return len(self.groups) // self.directions

    @property
    def hidden_size(self) -> int:
        return self.groups[0].recurrent.shape[1]

    @property
    def input_size(self) -> int:
        weight = self.groups[0].input
        assert weight is not None
        return weight.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.groups[0].recurrent.dtype


class Subject(NamedTuple):
    """A stack and, of a model, what is around it."""

    stack: Stack
    symbols: int | None = None
    """How many symbols there are; None where the input is numbers."""
    embedding: Tensor | None = None
    """(symbols, features); without one, symbols are one-hot."""
    readout: tuple[Tensor, Tensor] | None = None
    """Weight and bias; None for a layer."""
    reads_every_step: bool = True
    facts: Mapping[str, str] = MappingProxyType({})
    """What is written into the file beside the computation."""


def _average_to_parts(average: Any, weight: Any) -> tuple[Any, ...]:
    return average, log_from_weight(weight)


def _average_from_parts(r: Any, l: Any) -> tuple[Any, ...]:
    return r, softplus(l)


def _as_it_is(*parts: Any) -> tuple[Any, ...]:
    return parts


@torch.no_grad()
def describe(module: nn.Module, form: Form) -> Subject:
    """The module as values.

    Raises:
        TypeError: the module is none of ours.
        ExportError: it cannot be exported in this form.
    """
    subject = _described(module)
    stack = subject.stack
    if stack.dtype not in EXPORTED:
        raise ExportError(
            f"module should be float32 or float64, got {stack.dtype}: convert it with .float()"
        )
    if form.one_step and form.with_lengths:
        raise ExportError("with_lengths should be False for one step, which has no padding")
    if form.one_step and stack.directions == 2:
        raise ExportError(
            "one_step should be False for a bidirectional layer, which reads from the end too"
        )
    if form.with_lengths and subject.readout is not None and subject.reads_every_step:
        raise ExportError("with_lengths should be False for a model that answers at every step")
    try:
        stack.unit.traced  # noqa: B018 - raises where a function is more than expressions
    except TypeError as error:
        raise ExportError(f"this unit cannot be exported: {error}") from error
    parts = zip(stack.names, stack.start, strict=True)
    start = {f"initial_{name}": part.tolist() for name, part in parts}
    return subject._replace(facts={**subject.facts, "start": json.dumps(start)})


def _described(module: nn.Module) -> Subject:
    if isinstance(module, SequenceModel):
        facts = {name: json.dumps(each) for name, each in module.needed_beside().items()}
        readout, encoder = module.readout, module.encoder
        return Subject(
            _described(module.unit).stack,
            module.symbols if encoder is None else encoder.num_embeddings,
            None if encoder is None else _plain(encoder.weight),
            (_plain(readout.weight), _plain(readout.bias)),
            module.reads_every_step,
            facts,
        )
    if isinstance(module, SequenceLayer):
        return Subject(_of_layer(module))
    if isinstance(module, LSTM | GRU):
        return Subject(_of_baseline(module))
    raise TypeError(
        "module should be a layer of rda (RDA, RWA, Recurrent, or LSTM and GRU of rda.build) or a "
        f"model of rda.load, got: {type(module).__name__}"
    )


def _of_layer(layer: SequenceLayer) -> Stack:
    unit, _ = layer._definition()
    to_parts, from_parts, names = _as_it_is, _as_it_is, layer._state_names()
    if isinstance(layer, AveragingLayer):
        to_parts, from_parts, names = _average_to_parts, _average_from_parts, State._fields
    weight = layer.weight_ih_l0
    if layer.learn_initial_state:
        parts = layer._learned_start(1, weight.dtype)
    else:
        shape = (len(layer._suffixes), 1, layer.hidden_size)
        parts = tuple(weight.new_full(shape, part.start) for part in unit.parts)
    return Stack(
        unit,
        tuple(_plain_weights(layer._group(suffix, unit)) for suffix in layer._suffixes),
        layer._directions,
        layer.batch_first,
        names,
        _plain_all(from_parts(*parts)),
        to_parts,
        from_parts,
    )


def _of_baseline(layer: LSTM | GRU) -> Stack:
    if layer.proj_size:
        raise ExportError(f"{type(layer).__name__} with proj_size={layer.proj_size} has no unit")
    unit, groups = layer._definition, layer.all_weights
    names = tuple(part.name for part in unit.parts)
    if layer.learn_initial_state:
        start = [getattr(layer, name).unsqueeze(1) for name in layer._learned_names]
    else:
        start = [layer.weight_hh_l0.new_zeros(len(groups), 1, layer.hidden_size) for _ in names]
    return Stack(
        unit,
        tuple(_plain_weights(layer._stored(group)) for group in groups),
        2 if layer.bidirectional else 1,
        layer.batch_first,
        names,
        _plain_all(start),
        _as_it_is,
        _as_it_is,
    )


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone()


def _plain_all(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(map(_plain, tensors))


def _plain_weights(weights: Weights) -> Weights:
    input, bias, recurrent = (None if each is None else _plain(each) for each in weights[:3])
    assert recurrent is not None
    return Weights(input, bias, recurrent, _plain_all(weights.of_units))
