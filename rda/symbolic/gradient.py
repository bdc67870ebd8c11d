"""The backward pass of a unit's step, derived from its expressions by reverse mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rda.symbolic.expressions import (
    MULTIPLY,
    Expression,
    Function,
    Scalar,
    as_expression,
    in_order,
    symbol,
)

if TYPE_CHECKING:
    from rda.units.unit import Traced

D_OUTPUT, D_HIDDEN = symbol("d. of o"), symbol("d. of h")


def _through(gradient: object, slope: object) -> object:
    import torch

    product = gradient * slope  # type: ignore[operator]
    return torch.where(torch.as_tensor(slope == 0), 0.0, product)


through = Function("through", _through, takes=2)
"""gradient * slope, and 0 where the slope is 0, even if the gradient is infinite there."""


class Gradient(NamedTuple):
    """The gradients of a step as expressions.

    They use the symbols D_OUTPUT and D_HIDDEN, the gradients of the step's o and h, and d.<part>
    for the gradient of each part of its new state that is not h itself.
    """

    x: Mapping[str, Expression]
    h: Mapping[str, Expression]
    before: Mapping[str, Expression]
    weights: Mapping[str, Expression]

    @property
    def results(self) -> list[Expression]:
        """All of them."""
        return [one for group in self for one in group.values()]


def derive(traced: Traced) -> Gradient:
    """The gradients of everything that a step is computed from."""
    results = [traced.output, traced.hidden, *traced.after.values()]
    incoming = [D_OUTPUT, D_HIDDEN]
    incoming += [
        as_expression(0.0) if name == traced.hidden_part else symbol(f"d.{name}")
        for name in traced.after
    ]
    seeds: dict[Expression, Expression] = {}
    for result, gradient in zip(results, incoming, strict=True):
        seeds[result] = seeds[result] + gradient if result in seeds else gradient
    found = reverse(results, seeds)
    nothing = as_expression(0.0)
    groups = (traced.x, traced.h, traced.before, traced.weights)
    return Gradient(
        *({name: found.get(leaf, nothing) for name, leaf in group.items()} for group in groups)
    )


def reverse(
    results: list[Expression], seeds: dict[Expression, Expression]
) -> dict[Expression, Expression]:
    """The gradients of all that the results are made of, from those of the results."""
    found = dict(seeds)
    for expression in reversed(in_order(results)):
        function, gradient = expression.function, found.get(expression)
        if function is None or gradient is None or function.derivative is None:
            continue
        for argument, slope in zip(
            expression.arguments, function.derivative(expression), strict=True
        ):
            if slope is not None and argument.number is None:
                part = _times(gradient, slope, function)
                found[argument] = found[argument] + part if argument in found else part
    return found


def _times(gradient: Expression, slope: Scalar, function: Function) -> Expression:
    product = gradient * slope
    if function.has_dead_zones and product.function is MULTIPLY:
        return through(gradient, slope)  # type: ignore[no-any-return]
    return product


def in_two_parts(results: Iterable[Expression]) -> tuple[list[Expression], list[Expression]]:
    """The gradients with all other factors multiplied first, and what they use of these factors.

    The latter can be computed before the gradients arrive that a step waits for. D_OUTPUT is not
    one of those: it is there from the beginning.
    """
    made: dict[Expression, Expression] = {}
    late: set[Expression] = set()
    for each in in_order(results := list(results)):
        arguments = [made.get(one, one) for one in each.arguments]
        if late.intersection(arguments):
            assert each.function is not None
            is_product = each.function is MULTIPLY
            made[each] = _gathered(arguments, late) if is_product else each.function(*arguments)
            late.add(made[each])
        elif each.symbol.startswith("d.") and each is not D_OUTPUT:
            late.add(each)
    results = [made.get(result, result) for result in results]
    used = [one for one in results if one not in late]
    used += [one for each in in_order(results) if each in late for one in each.arguments]
    return results, [one for one in dict.fromkeys(used) if one not in late and one.number is None]


def _gathered(factors: list[Expression], late: set[Expression]) -> Expression:
    """The product of these two; (gradient * x) * y as gradient * (x * y)."""
    y, gradient = sorted(factors, key=late.__contains__)
    if gradient.function is not MULTIPLY:
        return gradient * y
    x, inner = sorted(gradient.arguments, key=late.__contains__)
    return inner * (x * y)
