"""The only door to the engines: picks one for the work at hand, and says why."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rda.activations import Choices
from rda.equations import LogState
from rda.names import look_up
from rda.precision import autocast_casts, autocast_dtype, autocast_off, state_dtype
from rda.scan import reference


class Engine(Protocol):
    """What an engine's module holds."""

    DESCRIPTION: str

    def why_not(self, projected: Tensor, choices: Choices) -> str | None:
        """None where the engine can serve, otherwise the reason in words."""

    def scan(
        self,
        projected: Tensor,
        recurrent_weight: Tensor,
        state: LogState,
        choices: Choices,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, LogState]:
        """As `scan` below, with every argument already checked."""


class EngineUnavailableError(RuntimeError):
    """An engine was asked for by name and cannot serve; the message says why."""


class Selection(NamedTuple):
    """The engine that would run, and the reason in words."""

    name: str
    reason: str


ENGINES: dict[str, Engine] = {"reference": reference}
"""Every engine by name, the one that `auto` prefers first."""


def check_engine_name(engine: object) -> None:
    """Raise for a name that is neither `auto` nor an engine's."""
    look_up("engine", engine, {"auto": None, **ENGINES})


def select(engine: str, projected: Tensor, choices: Choices) -> Selection:
    """The engine for this work. A name that cannot serve raises; `auto` takes the next."""
    check_engine_name(engine)
    if engine != "auto":
        obstacle = ENGINES[engine].why_not(projected, choices)
        if obstacle is not None:
            raise EngineUnavailableError(f"engine {engine!r} cannot serve this call: {obstacle}")
        return Selection(engine, "asked for by name")
    passed_over: list[str] = []
    for name, candidate in ENGINES.items():
        obstacle = candidate.why_not(projected, choices)
        if obstacle is None:
            return Selection(name, "; ".join([*passed_over, candidate.DESCRIPTION]))
        passed_over.append(f"not {name}: {obstacle}")
    raise EngineUnavailableError("; ".join(passed_over))


def scan(
    projected: Tensor,
    recurrent_weight: Tensor,
    state: LogState | None = None,
    choices: Choices | None = None,
    *,
    lengths: Tensor | None = None,
    reverse: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, LogState]:
    """One direction of one layer over time, differentiable in every tensor.

    Args:
        projected: W x + b for every step, (time, batch, 4 * hidden) in the order u, g, a,
            gamma; (time, batch, 3 * hidden) without gamma where `choices.discount` is off.
        recurrent_weight: (3 * hidden, hidden) in the order g, a, gamma; (2 * hidden, hidden)
            without a discount.
        state: where to start, two tensors (batch, hidden) of float32 or wider: the average r
            and l = log d. None is no history: r = 0, l = -inf.
        choices: f_a, f_h, f_o and the discount; the default is RDA-exp-tanh.
        lengths: (batch,) integers from 0 to time. A row's state stops at its length, its
            output is zero after it, and what `projected` holds there has no influence.
        reverse: run from the last step to the first (each row from its own end).
        engine: a name of `ENGINES`, or "auto".

    Returns:
        The output o = f_o(h) of every step, (time, batch, hidden), and the final state.
    """
    choices = Choices() if choices is None else choices
    _check_types(
        projected=(projected, Tensor),
        recurrent_weight=(recurrent_weight, Tensor),
        choices=(choices, Choices),
    )
    if autocast_casts(projected) and autocast_casts(recurrent_weight):
        lower = autocast_dtype(projected)
        projected, recurrent_weight = projected.to(lower), recurrent_weight.to(lower)
    _check_shapes(projected, recurrent_weight, choices)
    batch, hidden_size = projected.shape[1], recurrent_weight.shape[1]
    if state is None:
        r = projected.new_zeros((batch, hidden_size), dtype=state_dtype(projected.dtype))
        state = LogState(r, torch.full_like(r, -torch.inf))
    _check_state(state, projected, hidden_size)
    if lengths is not None:
        _check_lengths(lengths, projected)
    chosen = ENGINES[select(engine, projected, choices).name]
    with autocast_off(projected):
        return chosen.scan(projected, recurrent_weight, LogState(*state), choices, lengths, reverse)


def _check_types(**arguments: tuple[object, type]) -> None:
    for name, (value, kind) in arguments.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be a {kind.__name__}, got: {type(value).__name__}")


def _check_shapes(projected: Tensor, recurrent_weight: Tensor, choices: Choices) -> None:
    if projected.dim() != 3 or projected.shape[0] == 0:
        raise RuntimeError(
            "projected should be (time, batch, blocks * hidden) with at least one step, "
            f"got {tuple(projected.shape)}"
        )
    hidden_size = projected.shape[2] // choices.input_blocks
    expected = (choices.recurrent_blocks * hidden_size, hidden_size)
    whole = hidden_size > 0 and projected.shape[2] == choices.input_blocks * hidden_size
    if not whole or tuple(recurrent_weight.shape) != expected:
        raise RuntimeError(
            f"recurrent_weight should be ({choices.recurrent_blocks} * hidden, hidden) and "
            f"projected (time, batch, {choices.input_blocks} * hidden), got "
            f"{tuple(recurrent_weight.shape)} and {tuple(projected.shape)}"
        )
    if not projected.dtype.is_floating_point or recurrent_weight.dtype != projected.dtype:
        raise ValueError(
            "projected and recurrent_weight should have one floating point dtype, "
            f"got {projected.dtype} and {recurrent_weight.dtype}"
        )
    if recurrent_weight.device != projected.device:
        raise RuntimeError(
            "projected and recurrent_weight should be on one device, "
            f"got {projected.device} and {recurrent_weight.device}"
        )


def _check_state(state: LogState, projected: Tensor, hidden_size: int) -> None:
    expected = (projected.shape[1], hidden_size)
    dtype = state_dtype(projected.dtype)
    _check_types(state=(state, tuple))
    if len(state) != 2:
        raise RuntimeError(f"state should be two tensors (r, l), got a tuple of {len(state)}")
    for name, part in zip(("r", "l"), state, strict=True):
        _check_types(**{f"state.{name}": (part, Tensor)})
        if tuple(part.shape) != expected:
            raise RuntimeError(f"state.{name} should be {expected}, got {tuple(part.shape)}")
        if part.dtype != dtype:
            raise ValueError(f"state.{name} should be {dtype}, got {part.dtype}")
        if part.device != projected.device:
            raise RuntimeError(
                f"state.{name} should be on {projected.device}, found on {part.device}"
            )


def _check_lengths(lengths: Tensor, projected: Tensor) -> None:
    _check_types(lengths=(lengths, Tensor))
    if tuple(lengths.shape) != (projected.shape[1],):
        raise RuntimeError(
            f"lengths should be ({projected.shape[1]},), one a row, got {tuple(lengths.shape)}"
        )
    if lengths.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"lengths should be int32 or int64, got {lengths.dtype}")
    # Reading values on another device would wait for it, and tracing has none to read.
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling() and lengths.numel():
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 0 or longest > projected.shape[0]:
            raise ValueError(
                f"lengths should be from 0 to {projected.shape[0]}, "
                f"got values from {shortest} to {longest}"
            )
