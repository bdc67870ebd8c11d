"""The only entry to the engines: it selects one for each call, and says why."""

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
    """The engine for this call. A named engine that cannot run raises; "auto" tries the next."""
    check_engine_name(engine)
    work = work_on(input, choices, *others)
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
        if obstacle is not None and obstacle.worth_telling and not torch.compiler.is_compiling():
            _tell_once(name, obstacle.reason)
    raise EngineUnavailableError("; ".join(passed_over))


_told: set[str] = set()


def _tell_once(name: str, reason: str) -> None:
    if reason not in _told:
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
    output, final = scan_layer(
        input, input_weight, bias, recurrent_weight, state, choices, lengths, reverse, engine
    )
    return output, LogState(*(part[0].clone() for part in final))  # not views of others


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
    """Like `scan`, but the final state is (1, batch, hidden), as a layer returns it."""
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
        # The padding may hold anything, even NaN, which must not reach a matrix product.
        input = input.masked_fill(~running(lengths, input), 0.0)
    others = [x for x in (input_weight, bias, *(state or ())) if x is not None]
    chosen = select(engine, input, choices, recurrent_weight, *others)
    return ENGINES[chosen.name].scan(
        input, input_weight, bias, recurrent_weight, state, choices, lengths, reverse
    )
