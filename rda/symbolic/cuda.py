"""Expressions as statements of CUDA: numbers are floats, and sums over time have a rest."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rda.symbolic import functions
from rda.symbolic.expressions import (
    ADD,
    MULTIPLY,
    SUBTRACT,
    Expression,
    Function,
    in_order,
    is_number,
    symbols_in,
)
from rda.symbolic.printing import Printer

ALWAYS_FINITE = {
    "add", "subtract", "multiply", "negate", "tanh", "sigmoid", "sigmoid_of_minus", "softplus",
    "relu", "log_sigmoid", "log_softplus",
}  # fmt: skip
"""Functions that are finite where their arguments are."""

slope_of_tanh = Function("slope_of_tanh", lambda x: 1 - x.tanh() ** 2)
"""The derivative of tanh from its argument, where tanh itself has too few digits."""


class SumText(NamedTuple):
    """The texts of a sum: all of it, its value, and what rounding has cut off, if that is kept."""

    whole: str
    value: str
    rest: str = ""

    @staticmethod
    def of(variable: str, is_compensated: bool) -> SumText:
        """A variable of the type Sum if it is compensated, otherwise a float."""
        if not is_compensated:
            return SumText(variable, variable)
        return SumText(variable, f"{variable}.value", f"{variable}.rest")

    @property
    def as_number(self) -> str:
        return f"({self.value} + {self.rest})" if self.rest else self.value


def number(value: float) -> str:
    """A float32."""
    if math.isinf(value):
        return "INFINITE" if value > 0 else "(-INFINITE)"
    return f"{value!r}f" if value >= 0 else f"({value!r}f)"


def _log_ratio(printer: Printer, of: Expression) -> str:
    assert isinstance(printer, Statements)
    new, kept = of.arguments
    name, kept_sum = printer.names[new], printer.sums.get(kept)
    parts = (printer.names[kept],) if kept_sum is None else (kept_sum.value, kept_sum.rest)
    ratio = " - ".join(part for part in (name, *parts) if part)
    return ratio if _is_finite(new) else f"{name} == -INFINITE ? -INFINITE : {ratio}"


def _is_finite(expression: Expression) -> bool:
    """Whether an expression is finite if all gates are."""
    function = expression.function
    if function is None:
        is_gate = expression.symbol.startswith(("x.", "h.", "w."))
        return is_gate or (expression.number is not None and math.isfinite(expression.number))
    return function.name in ALWAYS_FINITE and all(map(_is_finite, expression.arguments))


def _blend(printer: Printer, of: Expression) -> str:
    old, new, p = of.arguments
    share = printer.shared("Sigmoids", "sigmoids({})", p)
    return f"blend({printer.names[old]}, {printer.names[new]}, {printer.names[p]}, {share})"


TEMPLATES: Mapping[str, str | Callable[[Printer, Expression], str]] = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "divide": "{0} / {1}",
    "negate": "-{0}",
    "less": "{0} < {1}",
    "where": "{0} ? {1} : {2}",
    "through": "through({0}, {1})",
    "tanh": "hyperbolic({0})",
    "slope_of_tanh": "slope_of_tanh({0})",
    "exp": "exponential({0})",
    "log": "logf({0})",
    "relu": "{0} < 0.0f ? 0.0f : {0}",
    "sigmoid": "sigmoid({0})",
    "sigmoid_of_minus": "sigmoid(-{0})",
    "softplus": "softplus({0})",
    "log_sigmoid": "log_sigmoid({0})",
    "log_softplus": "log_softplus({0})",
    "slope_of_log_softplus": "slope_of_log_softplus({0})",
    "log_relu": "log_relu({0})",
    "log_of_weight": "log_of_weight({0})",
    "slope_of_log_relu": "slope_of_log_relu({0})",
    "log_from_weight": "{0} <= SMALLEST ? -INFINITE : {0} + logf(-expm1f(-{0}))",
    "slope_of_log_from_weight": "slope_of_log_relu(-expm1f(-{0}))",
    "log_ratio": _log_ratio,
    "blend": _blend,
    "log_sum": "({2} > 0.0f ? {1} : {0}) + rise({2})",
}


class Statements(Printer):
    """Statements that compute floats, and sums as `SumText`."""

    def __init__(
        self,
        names: Mapping[Expression, str],
        prefix: str = "v",
        sums: Mapping[Expression, SumText] | None = None,
        *,
        is_compensated: bool = False,
        are_members: bool = False,
        hasty: Iterable[Expression] | None = None,
        shared: Mapping[tuple[str, Expression], str] | None = None,
    ) -> None:
        """With `are_members` the variables are members of a struct, so that other functions see
        them. Unless `hasty` is None, what is added to a sum is added to its rest, which takes less
        time and rounds nothing off, and the expressions in `hasty` are computed with fewer digits.
        `shared` are the `shared_variables` of another function.
        """
        super().__init__("float", number, TEMPLATES, names)
        self.prefix, self.is_compensated, self.are_members = prefix, is_compensated, are_members
        self.hasty = None if hasty is None else {*hasty}
        self.sums = dict(sums or {})
        self.members: list[str] = []
        self._shared = dict(shared or {})
        self._in_pairs: set[Expression] = set()

    @property
    def shared_variables(self) -> Mapping[tuple[str, Expression], str]:
        """Variables of other types than float, by their type and argument."""
        return self._shared

    def compute(self, results: Iterable[Expression]) -> list[str]:
        results = list(results)
        arguments: dict[Function, set[Expression]]
        arguments = {functions.sigmoid: set(), functions.sigmoid_of_minus: set()}
        for each in in_order(results, self.names):
            if each.function is functions.blend:
                self._in_pairs.add(each.arguments[2])
            elif each.function in arguments:
                arguments[each.function].add(each.arguments[0])
        self._in_pairs |= set.intersection(*arguments.values())
        return super().compute(results)

    def held(self, results: Iterable[Expression]) -> tuple[list[str], list[str]]:
        """The types of the results, and texts that compute them in registers of their own."""
        loaded, results = {*self.names.values()}, list(results)
        kinds = ["bool" if of.function and of.function.is_condition else "float" for of in results]
        found = zip(kinds, self.compute(results), strict=True)
        return kinds, [
            name if kind == "bool" else held(name) if name in loaded else f"pinned({name})"
            for kind, name in found
        ]

    def _written(self, expression: Expression) -> str:
        function = expression.function
        if function is None:
            return super()._written(expression)
        if self.hasty and expression in self.hasty:
            argument = self.names[expression.arguments[0]]
            return self._variable("float", f"quick_{function.name}({argument})")
        found = self._sum(expression)
        if found is not None:
            self.sums[expression] = found
            return found.as_number
        if function in (functions.sigmoid, functions.sigmoid_of_minus):
            (x,) = expression.arguments
            if x in self._in_pairs or ("Sigmoids", x) in self._shared:
                both = self.shared("Sigmoids", "sigmoids({})", x)
                return f"{both}.{'of' if function is functions.sigmoid else 'rest'}"
        if function.is_condition:  # a name of its own, because it may be of a state that changes
            return self._variable("bool", super()._written(expression))
        return super()._written(expression)

    def _sum(self, expression: Expression) -> SumText | None:
        """What is written if this adds something to a sum."""
        if expression.function is functions.log_sum and expression.arguments[0] in self.sums:
            return self._log_sum(expression)
        if expression.function not in (ADD, SUBTRACT):
            return None
        a, b = expression.arguments
        if expression.function is ADD and a not in self.sums:
            a, b = b, a
        if a not in self.sums:
            return None
        before, term = self.sums[a], self.names[b]
        if expression.function is SUBTRACT:
            term = f"(-{term})"
        if self.hasty is not None:
            rest = self._variable("float", f"{before.rest} + {term}" if before.rest else term)
            return SumText(f"Sum{{{before.value}, {rest}}}", before.value, rest)
        if self.is_compensated:
            return SumText.of(self._variable("Sum", f"add({before.whole}, {term})"), True)
        return SumText.of(self._variable("float", f"{before.value} + {term}"), False)

    def _log_sum(self, expression: Expression) -> SumText:
        kept, new, p = expression.arguments
        if not self.is_compensated:
            return SumText.of(super()._written(expression), False)
        fresh = f"Sum{{{self.names[new]}, 0.0f}}"
        larger = f"{self.names[p]} > 0.0f ? {fresh} : {self.sums[kept].whole}"
        return SumText.of(self._variable("Sum", f"add({larger}, rise({self.names[p]}))"), True)

    def _variable(self, kind: str, text: str) -> str:
        name = f"{self.prefix}{len(self.lines)}"
        if self.are_members:
            self.members.append(f"{kind} {name};")
            self.lines.append(f"{name} = {text};")
        else:
            self.lines.append(f"const {kind} {name} = {text};")
        return name


def held(loaded: str) -> str:
    """What was loaded, in another register: a mere copy would be left out, and stay where the next
    load has to go. It is also there from here on, so that no later step waits for it."""
    return f"pinned({loaded} + 0.0f)"


# ---- Slopes of tanh in bf16


def with_slopes_of_arguments(
    results: Iterable[Expression], known: Iterable[Expression]
) -> list[Expression]:
    """The results, with 1 - tanh(x)^2 computed from x wherever what is known is enough for x."""
    known = {*known}
    made: dict[Expression, Expression] = {}

    def again(expression: Expression) -> Expression:
        if expression in known or expression.function is None:
            return expression
        if expression not in made:
            x = _argument_of_slope(expression)
            if x is not None and not any(symbols_in([x], known)):
                made[expression] = slope_of_tanh(again(x))
            else:
                made[expression] = expression.function(*map(again, expression.arguments))
        return made[expression]

    return [again(result) for result in results]


def _argument_of_slope(expression: Expression) -> Expression | None:
    """x if this is 1 - tanh(x) tanh(x)."""
    if expression.function is not SUBTRACT or not is_number(expression.arguments[0], 1):
        return None
    square = expression.arguments[1]
    if square.function is not MULTIPLY or square.arguments[0] is not square.arguments[1]:
        return None
    value = square.arguments[0]
    return value.arguments[0] if value.function is functions.tanh else None


# ---- Text around statements


def struct(head: str, *content: str) -> str:
    """A struct of this content."""
    return f"struct {head} {{\n{''.join(content)}}};\n\n"


def indented(lines: Iterable[str], spaces: int = 2) -> str:
    """Lines of text; a preprocessor's are not indented."""
    return "".join(f"{'' if line.startswith('#') else ' ' * spaces}{line}\n" for line in lines)


def function(kind: str, head: str, lines: Iterable[str]) -> str:
    """A member function. `kind` is its type and what precedes it, such as `static`."""
    *words, result = kind.split()
    template = "  template <int WIDE>\n" if "template" in words else ""
    static = "static " if "static" in words else ""
    inline = f"{static}__device__ __forceinline__ {result} {head}"
    return f"\n{template}  {inline} {{\n{indented(lines, 4)}  }}\n"


def identifier(prefix: str, name: str, place: int) -> str:
    """A name of a unit's as a name in CUDA, where letters are those of ASCII."""
    return f"{prefix}_{name}" if name.isascii() else f"{prefix}_{place}"


def mentions(lines: Iterable[str], name: str) -> bool:
    """Whether this name occurs in the lines."""
    pattern = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    return any(pattern.search(line) for line in lines)
