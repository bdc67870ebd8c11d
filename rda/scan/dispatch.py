"""The only entry to the engines: it selects one for each call, and says why."""

import warnings
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.names import look_up
from rda.precision import autocast_casts, autocast_dtype, autocast_off
from rda.scan import op, reference
from rda.scan.checks import check_call, check_lengths, check_state, check_type
from rda.scan.cuda.launching import Layer
from rda.scan.engines import ENGINES, Work
from rda.scan.passes import Call, Weights
from rda.scan.ragged import running
from rda.scan.tracing import is_transformed
from rda.units.known import find, unit_of


class EngineUnavailableError(RuntimeError):
    """An engine that was requested by name cannot run this call. The message says why."""


class EngineWarning(UserWarning):
    """`auto` runs a slower engine than it could. The warning comes once for each reason."""


class Selection(NamedTuple):
    """The engine that would run, and the reason."""

    name: str
    reason: str


def check_engine_name(engine: object) -> None:
    """Raise for a name that is neither "auto" nor an engine."""
    if engine == "auto":
        return
    names = ("auto", *ENGINES)
    if engine == "torch":
        raise ValueError(
            "unknown engine 'torch'. It means torch's own LSTM and GRU; for RDA and RWA, plain "
            f"PyTorch code is 'eager'. Valid names: {', '.join(names)}"
        )
    look_up("engine", engine, dict.fromkeys(names))


def select(engine: str, input: Tensor, choices: Choices, *others: Tensor) -> Selection:
    """The engine for an RDA or RWA on such tensors, of which the second is the recurrent weight.

    A named engine that cannot run raises; "auto" tries the next.
    """
    units = gates = batch = 0
    if others:
        rows, units = others[0].shape
        gates, batch = rows // max(units, 1), input.shape[1]
    layer = Layer.on(input, units, gates, batch)
    return _selected(engine, Work(layer, *unit_of(choices), (input, *others)))


def choose(engine: str, work: Work, tell: bool = True) -> str:
    """The name of the engine for this work; `tell` where a slower one than could be is a loss."""
    layer = work.layer
    # Every call asks, mostly about the same few layers. Under tracing sizes may be symbols.
    known = work.key and not torch.compiler.is_compiling() and not is_transformed(work.tensors)
    if not known or not type(layer.units) is type(layer.batch) is int:
        return _selected(engine, work, tell).name
    return _chosen(engine, layer, work.key, tell)


@lru_cache(maxsize=4096)
def _chosen(engine: str, layer: Layer, key: str, tell: bool) -> str:
    return _selected(engine, Work(layer, find(key), key, ()), tell).name


def _selected(engine: str, work: Work, tell: bool = True) -> Selection:
    check_engine_name(engine)
    if engine != "auto":
        obstacle = ENGINES[engine].obstacle(work)
        if obstacle is not None:
            raise EngineUnavailableError(
                f"engine {engine!r} cannot serve this call: {obstacle.reason}"
            )
        return Selection(engine, "requested by name")
    passed_over: list[str] = []
    for name, candidate in ENGINES.items():
        obstacle = candidate.obstacle(work)
        reason = candidate.slower(work.layer) if obstacle is None else obstacle.reason
        if reason is None:
            return Selection(name, "; ".join([*passed_over, candidate.description]))
        passed_over.append(f"not {name}: {reason}")
        if obstacle is not None and obstacle.worth_telling and tell:
            _tell_once(name, obstacle.reason)
    raise EngineUnavailableError("; ".join(passed_over))


_told: set[str] = set()


def _tell_once(name: str, reason: str) -> None:
    if reason not in _told and not torch.compiler.is_compiling():
        _told.add(reason)
        warnings.warn(
            f"rda: the engine {name} cannot run here: {reason}. A slower one runs instead; name it "
            "(engine=...) to silence this warning. `rda doctor` tells more",
            EngineWarning,
            stacklevel=2,
        )


def scan(
    input: Tensor,
    recurrent_weight: Tensor,
    state: LogState | None = None,
    choices: Choices | None = None,
    *,
    input_weight: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, LogState]:
    """One direction of one layer over time, differentiable in every tensor.

    Args:
        input: with `input_weight`, x itself, (time, batch, features). Otherwise W x + b for every
            step, (time, batch, 4 * hidden) in the order u, g, a, gamma. Without a discount there
            is no gamma here and below, and one block less.
        recurrent_weight: (3 * hidden, hidden) in the order g, a, gamma.
        state: the start, two tensors (batch, hidden) of float32 or wider: the average r and
            l = log d. None means no history: r = 0, l = -inf.
        choices: f_a, f_h, f_o and the discount. The default is RDA-exp-tanh.
        input_weight: W, (4 * hidden, features) in the order u, g, a, gamma.
        bias: b, (4 * hidden), only together with `input_weight`.
        lengths: (batch,) integers from 0 to time. The state of a row stops changing at its length,
            its output is zero from there on, and the padding has no influence.
        reverse: run from the last step to the first, each row from its own end.
        engine: "auto", or a name of `ENGINES`.

    Returns:
        The output o = f_o(h) of every step, (time, batch, hidden), and the final state.
    """
    choices = Choices() if choices is None else choices
    check_type("choices", choices, Choices)
    weights = Weights(input_weight, bias, recurrent_weight)
    start = () if state is None else state
    call = Call(*unit_of(choices), input, weights, start, lengths, reverse)
    output, r, l = scan_layer(call, engine)
    return output, LogState(r[0].clone(), l[0].clone())  # not views of others


def scan_layer(call: Call, engine: str, is_chosen: bool = False) -> tuple[Tensor, ...]:
    """The output of a call, and each part of the final state as (1, batch, hidden).

    With `is_chosen` the engine is one that `choose` has found for this work.
    """
    input, lengths = call.input, call.lengths
    check_type("input", input, Tensor)
    lower = autocast_dtype(input)
    if lower is not None:
        if autocast_casts(input):
            call = call.in_dtype(lower)
        with autocast_off(input):
            return scan_layer(call, engine, is_chosen)
    check_call(call)
    units = call.weights.recurrent.shape[1]
    if call.start:
        check_state(call.start, call.unit, input, units)
    if lengths is not None:
        check_lengths(lengths, input)
        # The padding may hold anything, even NaN, which must not reach a matrix product.
        call = call._replace(input=input.masked_fill(~running(lengths, input), 0.0))
    name = engine if is_chosen else choose(engine, Work.of(call))
    if name == "reference":
        return reference.scan(call)
    return op.scan(call, name, ENGINES[name].precision(input.dtype, units))
