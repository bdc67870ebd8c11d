"""What a recurrent unit is: its gates, its state, and one step written as equations on scalars."""

from __future__ import annotations

import hashlib
import inspect
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from keyword import iskeyword
from linecache import getline
from numbers import Real
from traceback import walk_tb
from typing import Any, ClassVar, NamedTuple, TypeAlias

from rda.symbolic.expressions import Expression, as_number, fingerprint, symbol, tracing
from rda.symbolic.refusing import StepError, instead

Names: TypeAlias = tuple[str, ...]


class Part(NamedTuple):
    """One value of a unit's state."""

    name: str
    start: float = 0.0
    """Its value before the first step, where no state is given."""
    is_sum: bool = False
    """Whether every step adds to it, so that rounding errors would add up over time."""


class Unit:
    """A recurrent unit. A subclass says what it is made of and how a step computes it:

        inputs     names of the blocks of W x + b, of which a step sees one value a unit
        recurrent  names of the blocks of W h, computed from the h of the step before
        state      what is carried from step to step
        weights    names of learned values, one for each unit, that are the same at every step
        biases     initial values of biases and weights that do not start at 0, by their names

    `step` gets the blocks as `x` and `h`, the state as `s` and, where it has any, the weights as
    `w`, and returns the new state. It is called with expressions to make the engines' kernels, and
    with tensors to run the reference, so it must use only + - * /, comparisons and the functions
    of `rda.functions`.
    """

    inputs: ClassVar[Names]
    recurrent: ClassVar[Names]
    state: ClassVar[tuple[str | Part, ...]]
    weights: ClassVar[Names] = ()
    biases: ClassVar[Mapping[str, float]] = {}

    parts: ClassVar[tuple[Part, ...]]
    """The parts of the state."""
    state_type: ClassVar[Any]
    """A named tuple of the parts of the state; those below are of the blocks and the weights."""
    x_type: ClassVar[Any]
    h_type: ClassVar[Any]
    w_type: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not all(hasattr(cls, name) for name in ("inputs", "recurrent", "state")):
            return
        check_definition(cls)
        cls.parts = tuple(map(_part, cls.state))
        names = [part.name for part in cls.parts]
        cls.state_type, cls.x_type, cls.h_type, cls.w_type = (
            namedtuple("Values", each) for each in (names, cls.inputs, cls.recurrent, cls.weights)
        )

    def step(self, x: Any, h: Any, s: Any, *weights: Any) -> Any:
        """The state after a step."""
        raise NotImplementedError(f"{type(self).__name__} should define step(self, x, h, s)")

    def hidden(self, s: Any) -> Any:
        """The h that the next step multiplies: the first part of the state, unless overridden."""
        return s[0]

    def output(self, s: Any) -> Any:
        """What the layer returns for a step: h, unless overridden."""
        return self.hidden(s)

    def filled(self, start: Sequence[Any], like: Any) -> Any:
        """A state of tensors like this one; a part that is None is the unit's own start."""
        parts = zip(start, self.parts, strict=True)
        return self.state_type(
            *(like.new_full(like.shape, part.start) if x is None else x for x, part in parts)
        )

    @cached_property
    def traced(self) -> Traced:
        """One step as expressions."""
        return trace(self)

    @property
    def key(self) -> str:
        """A name for this unit and no other, the same in every process."""
        traced = self.traced
        results = (*traced.after.values(), traced.hidden, traced.output, traced.start_hidden)
        steps = fingerprint(results)
        said = repr((self.inputs, self.recurrent, self.parts, self.weights, steps))
        digest = hashlib.sha256(said.encode()).hexdigest()[:12]
        return f"{type(self).__module__}:{type(self).__qualname__} {digest}"

    def __getstate__(self) -> dict[str, Any]:
        """Without what was traced, which is made again where it is needed."""
        return {name: value for name, value in vars(self).items() if name != "traced"}


def check_definition(cls: type[Unit]) -> None:
    """Raise for a unit whose parts are not what they should be. The message names the unit."""
    owner = cls.__name__
    for kind in ("inputs", "recurrent", "state", "weights"):
        names = getattr(cls, kind)
        if not isinstance(names, tuple):
            raise TypeError(
                f"{owner}.{kind} should be a tuple of names, got: {names!r}"
                + (f" (write ({names!r},))" if isinstance(names, str) else "")
            )
        found = [part.name if isinstance(part, Part) else part for part in names]
        for name in found:
            is_name = isinstance(name, str) and name.isidentifier() and not iskeyword(name)
            if not is_name or name.startswith("_"):
                raise ValueError(f"{owner}.{kind} should be names of Python, got: {name!r}")
            if kind == "weights" and name in ("bias", "weight_ih", "weight_hh"):
                raise ValueError(f"{owner}.weights has {name!r}, which every layer has already")
            if found.count(name) > 1:
                raise ValueError(f"{owner}.{kind} has {name!r} twice")
        if not names and kind != "weights":
            raise ValueError(f"{owner}.{kind} should have at least one name")
    biases = vars(cls).get("biases", {})
    if not isinstance(biases, Mapping):
        raise TypeError(f"{owner}.biases should be numbers by name, got: {type(biases).__name__}")
    for name, value in biases.items():
        if name not in (*cls.inputs, *cls.weights):
            raise ValueError(f"{owner}.biases has {name!r}, which is not in inputs or weights")
        check_number(f"{owner}.biases[{name!r}]", value)
    for part in cls.state:
        if isinstance(part, Part):
            check_number(f"{owner}.state: the start of {part.name!r}", part.start)


def check_number(what: str, value: object) -> None:
    """Raise for what is no plain number."""
    if not isinstance(value, Real):
        raise TypeError(f"{what} should be a number, got: {type(value).__name__}")
    if value != value:
        raise ValueError(f"{what} should be a number, got: nan")


def _part(given: str | Part) -> Part:
    """A part of the state with a start of Python's own: numpy prints its numbers with a name."""
    if isinstance(given, str):
        return Part(given)
    is_plain = type(given.start) in (int, float)  # keys of saved programs have either as it is
    return given if is_plain else given._replace(start=float(given.start))


class Traced(NamedTuple):
    """A step as expressions of the symbols x.*, h.*, s.* and w.*."""

    x: Mapping[str, Expression]
    h: Mapping[str, Expression]
    before: Mapping[str, Expression]
    weights: Mapping[str, Expression]
    after: Mapping[str, Expression]
    hidden: Expression
    output: Expression
    start_hidden: Expression
    """The h before the first step."""

    @property
    def hidden_part(self) -> str | None:
        """The part of the state that is h itself, before a step too; None if there is none."""
        pairs = zip(self.before.values(), self.after.items(), strict=True)
        same = (
            name
            for before, (name, after) in pairs
            if before is self.start_hidden and after is self.hidden
        )
        return next(same, None)


def trace(unit: Unit) -> Traced:
    """Call the unit's functions with symbols.

    Raises:
        TypeError: they do not return what they should. The message names the unit and says what.
    """
    name = type(unit).__name__
    names = {"x": unit.inputs, "h": unit.recurrent, "w": unit.weights}
    groups = {key: {one: symbol(f"{key}.{one}") for one in of} for key, of in names.items()}
    before = {part.name: symbol(f"s.{part.name}") for part in unit.parts}
    x, h = unit.x_type(**groups["x"]), unit.h_type(**groups["h"])
    weights = (unit.w_type(**groups["w"]),) if unit.weights else ()
    stepped = _called(unit.step, f"{name}.step", x, h, unit.state_type(**before), *weights)
    if not isinstance(stepped, tuple) or len(stepped) != len(before):
        wanted, got = ", ".join(before), type(stepped).__name__
        got = f"{len(stepped)} values" if isinstance(stepped, tuple) else f"one {got}"
        hint = ": write return (value,)" if len(before) == 1 else ""
        raise TypeError(
            f"{name}.step should return a tuple with one value for each part of the state "
            f"({wanted}), got {got}{hint}"
        )
    after = unit.state_type(*(_checked(part, f"{name}.step") for part in stepped))
    start = unit.state_type(**before)
    hidden, output, start_hidden = (
        _checked(_called(getattr(unit, what), f"{name}.{what}", of), f"{name}.{what}")
        for what, of in (("hidden", after), ("output", after), ("hidden", start))
    )
    return Traced(
        groups["x"], groups["h"], before, groups["w"], after._asdict(), hidden, output, start_hidden
    )


def _called(function: Callable[..., Any], where: str, *arguments: Any) -> Any:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        kinds = ", ".join(("x", "h", "s", "w")[: len(arguments)] if len(arguments) > 1 else "s")
        raise TypeError(f"{where} should take (self, {kinds}): {error}") from error
    try:
        with tracing():
            return function(*arguments)
    except (NotImplementedError, RecursionError):
        raise
    except StepError as error:
        raise TypeError(f"{where}: {error}{_line_of(error)}") from error
    except Exception as error:
        if isinstance(error, AttributeError) and isinstance(error.obj, Expression):
            hint = instead(error.name or "")
            raise TypeError(f"{where}: a number has no method {error.name!r}: {hint}") from error
        fields = getattr(getattr(error, "obj", None), "_fields", None)
        if isinstance(error, AttributeError) and fields is not None:
            names = ", ".join(fields)
            raise TypeError(f"{where} asks for {error.name!r}, where there is: {names}") from error
        raise TypeError(
            f"{where} should use only + - * /, comparisons and the functions of rda.functions. "
            f"It raised {type(error).__name__}: {error}"
        ) from error


def _line_of(error: Exception) -> str:
    """The user's line that raised it, where its source is at hand."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    libraries = "rda", "torch", "numpy"
    theirs = [
        frame
        for frame in frames
        if f"{frame.f_globals.get('__name__')}".partition(".")[0] not in libraries
    ]
    line = getline(theirs[-1].f_code.co_filename, theirs[-1].f_lineno).strip() if theirs else ""
    return f", in: {line}" if line else ""


def _checked(value: object, where: str) -> Expression:
    if not isinstance(value, Expression):
        raise TypeError(
            f"{where} should compute with what it is given, got: {type(value).__name__}"
        )
    return as_number(value)
