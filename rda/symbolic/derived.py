"""All that an engine needs of a unit: its step, the gradients of the step, and what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rda.symbolic import keeping
from rda.symbolic.expressions import (
    ADD,
    Expression,
    as_expression,
    evaluate,
    in_order,
    symbol,
)
from rda.symbolic.gradient import D_HIDDEN, Gradient, derive, reverse

if TYPE_CHECKING:
    from rda.symbolic.keeping import Kept
    from rda.units.unit import Traced, Unit


Order = tuple[int, ...] | None


class Gates(NamedTuple):
    """Names of gates by what they see. A gate that sees both is the sum of W x and W h."""

    x_only: tuple[str, ...]
    both: tuple[str, ...]
    h_only: tuple[str, ...]


class Derived:
    """What follows from a unit's definition; `in_half` where sequences are stored in bfloat16."""

    def __init__(self, unit: Unit, in_half: bool = False) -> None:
        self.unit, self.in_half = unit, in_half
        self.traced: Traced = unit.traced

    @cached_property
    def gradient(self) -> Gradient:
        """The gradients of a step."""
        return derive(self.traced)

    @cached_property
    def kept(self) -> Kept:
        """What the forward pass keeps."""
        sums = [part.name for part in self.unit.parts if part.is_sum]
        return keeping.choose(self.traced, self.gradient, sums, self.in_half)

    @cached_property
    def _sums(self) -> dict[str, Expression]:
        """W x + W h of each gate whose two blocks occur in nothing else."""
        traced = self.traced
        results = (*traced.after.values(), traced.hidden, traced.output)
        users: dict[Expression, set[Expression]] = {}
        for each in in_order(results):
            for argument in each.arguments:
                users.setdefault(argument, set()).add(each)

        found: dict[str, Expression] = {}
        for name in (name for name in traced.x if name in traced.h):
            blocks = {traced.x[name], traced.h[name]}
            uses = set().union(*(users.get(block, set()) for block in blocks))
            sums = [one for one in uses if one.function is ADD and {*one.arguments} == blocks]
            if len(sums) == len(uses) == 1 and blocks.isdisjoint(results):
                found[name] = sums[0]
        return found

    @cached_property
    def gates(self) -> Gates:
        """Which gates there are, in the order in which they are stored."""
        x, h, both = self.traced.x, self.traced.h, tuple(self._sums)
        return Gates(
            tuple(name for name in x if name not in both),
            both,
            tuple(name for name in h if name not in both),
        )

    @cached_property
    def gate_expressions(self) -> tuple[Expression, ...]:
        """The gates before their non-linearities, in the order in which they are stored."""
        x, h, gates = self.traced.x, self.traced.h, self.gates
        return (
            *(x[name] for name in gates.x_only),
            *self._sums.values(),
            *(h[name] for name in gates.h_only),
        )

    @cached_property
    def blocks(self) -> tuple[Expression, ...]:
        """The gradients of the gates, in the same order, then those of other weights."""
        x, h, gates = self.gradient.x, self.gradient.h, self.gates
        of_gates = (
            *(x[name] for name in (*gates.x_only, *gates.both)),
            *(h[name] for name in gates.h_only),
        )
        others = dict.fromkeys(self.gradient.weights.values())
        return (*of_gates, *(one for one in others if one not in of_gates))

    @cached_property
    def carried(self) -> Expression:
        """The gradient that reaches the h before a step past its gates."""
        name = self.traced.hidden_part
        return as_expression(0.0) if name is None else self.gradient.before[name]

    @cached_property
    def start_gradient(self) -> dict[str, Expression]:
        """The gradient of each part of the start: what came back to it, and to the first h."""
        hidden_part = self.traced.hidden_part
        through_h = reverse([self.traced.start_hidden], {self.traced.start_hidden: D_HIDDEN})
        nothing = as_expression(0.0)
        return {
            name: through_h.get(part, nothing)
            + (nothing if name == hidden_part else symbol(f"d.{name}"))
            for name, part in self.traced.before.items()
        }

    @cached_property
    def weight_blocks(self) -> tuple[int, ...]:
        """For each of the unit's own weights, which of `blocks` is its gradient at a step."""
        return tuple(self.blocks.index(each) for each in self.gradient.weights.values())

    @cached_property
    def orders(self) -> tuple[Order, Order]:
        """For each gate of W x, and of W h, as they are stored: its place in the definition.

        None where the two orders are the same.
        """
        x, h, gates = list(self.traced.x), list(self.traced.h), self.gates
        return (
            _unless_same(x.index(name) for name in (*gates.x_only, *gates.both)),
            _unless_same(h.index(name) for name in (*gates.both, *gates.h_only)),
        )

    @cached_property
    def definition_orders(self) -> tuple[Order, Order]:
        """The inverse: for each gate of the definition its place as it is stored."""
        x, h = (None if one is None else _inverse(one) for one in self.orders)
        return x, h

    def hidden_of(self, output: Any, sequences: Sequence[Any]) -> Any:
        """The h of every step, from what is kept."""
        traced = self.traced
        known = {traced.after[n]: s for n, s in zip(self.kept.sequences, sequences, strict=True)}
        (h,) = evaluate([traced.hidden], {traced.output: output, **known}, output)
        return _whole(h, output)

    def first_hidden(self, start: Sequence[Any], like: Any) -> Any:
        """The h before the first step, a tensor like this one; None where it is zero."""
        if self._starts_from_zero and all(part is None for part in start):
            return None
        values = dict(zip(self.traced.before.values(), self.unit.filled(start, like), strict=True))
        (h,) = evaluate([self.traced.start_hidden], values, like)
        return _whole(h, like)

    @cached_property
    def _starts_from_zero(self) -> bool:
        import torch

        like = torch.empty(1, dtype=torch.float64)
        own = self.unit.filled([None] * len(self.unit.parts), like)
        values = dict(zip(self.traced.before.values(), own, strict=True))
        (h,) = evaluate([self.traced.start_hidden], values, like)
        return not bool(h.any())


def _whole(value: Any, like: Any) -> Any:
    """The tensor itself; a single number in the shape of the other."""
    return value if value.shape == like.shape else value.expand_as(like).contiguous()


def _unless_same(order: Iterable[int]) -> Order:
    found = tuple(order)
    return None if found == tuple(range(len(found))) else found


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(place) for place in range(len(order)))
