"""The only door to the engines: picks one for the work at hand, and says why."""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.names import look_up
from rda.precision import autocast_casts, autocast_dtype, autocast_off
from rda.scan.checks import check_input, check_lengths, check_state, check_type
from rda.scan.engines import ENGINES, work_on
from rda.scan.ragged import running


class EngineUnavailableError(RuntimeError):
    """An engine was asked for by name and cannot serve; the message says why."""


class EngineWarning(UserWarning):
    """`auto` runs on a slower engine than it could; said once for each reason."""


class Selection(NamedTuple):
    """The engine that would run, and the reason in words."""

    name: str
    reason: str


def check_engine_name(engine: object) -> None:
    """Raise for a name that is neither `auto` nor an engine's."""
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
    """The engine for this work. A name that cannot serve raises; `auto` takes the next."""
    check_engine_name(engine)
    work = work_on(input, choices, *others)
    if engine != "auto":
        obstacle = ENGINES[engine].obstacle(work)
        if obstacle is not None:
            raise EngineUnavailableError(
                f"engine {engine!r} cannot serve this call: {obstacle.reason}"
            )
        return Selection(engine, "asked for by name")
    passed_over: list[str] = []
    for name, candidate in ENGINES.items():
        obstacle = candidate.obstacle(work)
        reason = candidate.slower(work.layer) if obstacle is None else obstacle.reason
        if reason is None:
            return Selection(name, "; ".join([*passed_over, candidate.description]))
        passed_over.append(f"not {name}: {reason}")
        if obstacle is not None and obstacle.worth_telling and not torch.compiler.is_compiling():
            _tell_once(name, obstacle.reason)
    raise EngineUnavailableError("; ".join(passed_over))


_told: set[str] = set()


def _tell_once(name: str, reason: str) -> None:
    if reason not in _told:
        _told.add(reason)
        warnings.warn(
            f"rda: the {name} engine does not serve here: {reason}. A slower one runs instead; "
            "name it (engine=...) to silence this, `rda doctor` tells more",
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
        input: without `input_weight`, W x + b for every step, (time, batch, 4 * hidden) in the
            order u, g, a, gamma; (time, batch, 3 * hidden) without gamma where
            `choices.discount` is off. With it, x itself, (time, batch, features).
        recurrent_weight: (3 * hidden, hidden) in the order g, a, gamma; (2 * hidden, hidden)
            without a discount.
        state: where to start, two tensors (batch, hidden) of float32 or wider: the average r
            and l = log d. None is no history: r = 0, l = -inf.
        choices: f_a, f_h, f_o and the discount; the default is RDA-exp-tanh.
        input_weight: W, (4 * hidden, features) in the order u, g, a, gamma.
        bias: b, (4 * hidden); only together with `input_weight`.
        lengths: (batch,) integers from 0 to time. A row's state stops at its length, its
            output is zero after it, and what `input` holds there has no influence.
        reverse: run from the last step to the first (each row from its own end).
        engine: a name of `ENGINES`, or "auto".

    Returns:
        The output o = f_o(h) of every step, (time, batch, hidden), and the final state.
    """
    choices = Choices() if choices is None else choices
    output, final = scan_layer(
        input, input_weight, bias, recurrent_weight, state, choices, lengths, reverse, engine
    )
    return output, LogState(*(part[0].clone() for part in final))  # tensors of their own


def scan_layer(
    input: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recurrent_weight: Tensor,
    state: LogState | None,
    choices: Choices,
    lengths: Tensor | None,
    reverse: bool,
    engine: str,
) -> tuple[Tensor, LogState]:
    """As `scan`, but the final state is (1, batch, hidden), as a layer hands it out."""
    check_type("input", input, Tensor)
    check_type("recurrent_weight", recurrent_weight, Tensor)
    check_type("choices", choices, Choices)
    lower = autocast_dtype(input)
    if lower is not None:
        if autocast_casts(input):
            input, recurrent_weight = input.to(lower), recurrent_weight.to(lower)
            input_weight = None if input_weight is None else input_weight.to(lower)
            bias = None if bias is None else bias.to(lower)
        with autocast_off(input):
            return scan_layer(
                input, input_weight, bias, recurrent_weight, state, choices, lengths, reverse,
                engine,
            )  # fmt: skip
    check_input(input, recurrent_weight, input_weight, bias, choices)
    if state is not None:
        check_state(state, input, recurrent_weight.shape[1])
        state = LogState(*state)
    if lengths is not None:
        check_lengths(lengths, input)
        # What stands beyond a row's end may be anything, NaN too, and must reach no product.
        input = input.masked_fill(~running(lengths, input), 0.0)
    others = [x for x in (input_weight, bias, *(state or ())) if x is not None]
    chosen = select(engine, input, choices, recurrent_weight, *others)
    return ENGINES[chosen.name].scan(
        input, input_weight, bias, recurrent_weight, state, choices, lengths, reverse
    )
