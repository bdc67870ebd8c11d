"""What a recurrent unit is: its gates, its state, and one step written as equations on scalars."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

from rda.symbolic.expressions import Expression, symbol

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

    `step` gets the blocks as `x` and `h`, the state as `s` and, where it has any, the weights as
    `w`, and returns the new state. It is called with expressions to make the engines' kernels, and
    with tensors to run the reference, so it must use only + - * /, comparisons and the functions
    of `rda.symbolic`.
    """

    inputs: ClassVar[Names]
    recurrent: ClassVar[Names]
    state: ClassVar[tuple[str | Part, ...]]
    weights: ClassVar[Names] = ()

    def step(self, x: Any, h: Any, s: Any, *weights: Any) -> Any:
        """The state after a step."""
        raise NotImplementedError

    def hidden(self, s: Any) -> Any:
        """The h that the next step multiplies: the first part of the state, unless overridden."""
        return s[0]

    def output(self, s: Any) -> Any:
        """What the layer returns for a step: h, unless overridden."""
        return self.hidden(s)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the state."""
        return tuple(Part(part) if isinstance(part, str) else part for part in type(self).state)

    @cached_property
    def state_type(self) -> Any:
        """A named tuple of the parts of the state."""
        return namedtuple("State", [part.name for part in self.parts])

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


class Traced(NamedTuple):
    """A step as expressions of the symbols x.*, h.*, s.* and w.*."""

    x: Mapping[str, Expression]
    h: Mapping[str, Expression]
    before: Mapping[str, Expression]
    weights: Mapping[str, Expression]
    after: Mapping[str, Expression]
    hidden: Expression
    output: Expression

    @property
    def hidden_part(self) -> str | None:
        """The part of the state that is h itself, or None."""
        return next((name for name, part in self.after.items() if part is self.hidden), None)


def trace(unit: Unit) -> Traced:
    """Call the unit's functions with symbols.

    Raises:
        TypeError: they do not return what they should. The message names the unit and says what.
    """
    name = type(unit).__name__
    names = {"x": unit.inputs, "h": unit.recurrent, "w": unit.weights}
    groups = {key: {one: symbol(f"{key}.{one}") for one in of} for key, of in names.items()}
    before = {part.name: symbol(f"s.{part.name}") for part in unit.parts}
    x, h, w = (_fields(groups[key]) for key in names)
    stepped = unit.step(x, h, unit.state_type(**before), *((w,) if w else ()))
    if not isinstance(stepped, tuple) or len(stepped) != len(before):
        raise TypeError(
            f"{name}.step should return {len(before)} values, one for each part of the state"
        )
    after = unit.state_type(*(_checked(part, f"{name}.step") for part in stepped))
    hidden = _checked(unit.hidden(after), f"{name}.hidden")
    output = _checked(unit.output(after), f"{name}.output")
    return Traced(groups["x"], groups["h"], before, groups["w"], after._asdict(), hidden, output)


def _fields(values: Mapping[str, Expression]) -> Any:
    return namedtuple("Blocks", list(values))(**values)


def _checked(value: object, where: str) -> Expression:
    if not isinstance(value, Expression):
        raise TypeError(
            f"{where} should compute with what it is given, got: {type(value).__name__}"
        )
    return value
