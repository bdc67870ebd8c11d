"""Expressions of scalars: what a unit's step is made of when it is traced.

An expression is a symbol, a number, or a function of expressions. Equal expressions are one object,
so that what a step computes twice is computed once, and a dictionary finds it by identity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from rda.symbolic.refusing import Refusing, StepError, no_number, of_numpy

Scalar: TypeAlias = "Expression | float"
Derivative = Callable[["Expression"], tuple["Scalar | None", ...]]


@dataclass(frozen=True, eq=False)
class Function:
    """A function of scalars, as each engine computes it, and its derivatives.

    `on_tensors` computes it with torch operations. `derivative` takes an expression with this
    function and gives, for each argument, the derivative by it; None where there is none.
    """

    name: str
    on_tensors: Callable[..., Any]
    derivative: Derivative | None = None
    is_condition: bool = False
    """Whether the result is true or false."""
    has_dead_zones: bool = False
    """Whether derivatives can be exactly zero, where even an infinite gradient must end."""
    takes: int = 1
    """The number of arguments."""

    def __call__(self, *arguments: Any) -> Any:
        """An expression where an argument is one, otherwise the result on tensors or numbers."""
        if not any(isinstance(argument, Expression) for argument in arguments):
            if all(isinstance(argument, Real) for argument in arguments):
                return _of_numbers(self, arguments)
            return self.on_tensors(*arguments)
        if len(arguments) != self.takes:
            raise StepError(f"{self.name} takes {self.takes} values, got {len(arguments)}")
        if self.name == "where":
            return _chosen(self, *arguments)
        found = _interned(self, tuple(map(as_number, arguments)))
        value = _constant(found)
        return found if value is None else value

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Expression(Refusing):
    """A function of other expressions; a symbol or a number where the function is None."""

    function: Function | None
    arguments: tuple[Expression, ...] = ()
    symbol: str = ""
    number: float | None = None

    def __add__(self, other: Scalar) -> Expression:
        return add(self, other)

    def __radd__(self, other: Scalar) -> Expression:
        return add(other, self)

    def __sub__(self, other: Scalar) -> Expression:
        return subtract(self, other)

    def __rsub__(self, other: Scalar) -> Expression:
        return subtract(other, self)

    def __mul__(self, other: Scalar) -> Expression:
        return multiply(self, other)

    def __rmul__(self, other: Scalar) -> Expression:
        return multiply(other, self)

    def __truediv__(self, other: Scalar) -> Expression:
        return divide(self, other)

    def __rtruediv__(self, other: Scalar) -> Expression:
        return divide(other, self)

    def __neg__(self) -> Expression:
        return negate(self)

    def __lt__(self, other: Scalar) -> Expression | bool:
        return less(self, other)

    def __gt__(self, other: Scalar) -> Expression | bool:
        return less(other, self)

    def __eq__(self, other: object) -> bool:
        if getattr(_while, "tracing", False):
            raise StepError("a unit's step cannot ask whether a value equals another: use < and >")
        return self is other

    __hash__ = object.__hash__

    def __array_ufunc__(self, function: Any, method: str, *arguments: Any, **_: Any) -> Any:
        """Arithmetic with a number of numpy on the left."""
        if function.__name__ not in _OF_NUMPY or method != "__call__":
            raise of_numpy(function)
        given = (each.item() if getattr(each, "ndim", 1) == 0 else each for each in arguments)
        return _OF_NUMPY[function.__name__](*given)

    def __repr__(self) -> str:
        if self.function is None:
            return self.symbol or f"{self.number:g}"
        return f"{self.function}({', '.join(map(repr, self.arguments))})"


_known: dict[object, Expression] = {}
_while = threading.local()


@contextmanager
def tracing() -> Iterator[None]:
    """While a user's functions are called with expressions, `==` is not that of objects."""
    _while.tracing = True
    try:
        yield
    finally:
        _while.tracing = False


def _interned(function: Function, arguments: tuple[Expression, ...]) -> Expression:
    key = (function, *map(id, arguments))
    return _known.setdefault(key, Expression(function, arguments))


def _chosen(where: Function, condition: Any, a: Scalar, b: Scalar) -> Expression:
    if isinstance(condition, bool):
        return as_number(a if condition else b)
    if not is_condition(condition):
        raise StepError(
            "where should have a comparison as its condition, such as 0 < x; for two of them write "
            "where(one, where(other, a, b), b)"
        )
    return _interned(where, (condition, as_number(a), as_number(b)))


def _constant(expression: Expression) -> Any:
    """The value of a function of numbers alone; None where it is not that."""
    function, numbers = expression.function, [one.number for one in expression.arguments]
    if function is None or any(one is None for one in numbers):
        return None
    value = _of_numbers(function, numbers)
    return value if function.is_condition else None if value != value else as_expression(value)


def _of_numbers(function: Function, numbers: Sequence[Any]) -> Any:
    """The value of a function of plain numbers, in double precision as they are."""
    import torch

    if len(numbers) != function.takes:
        raise StepError(f"{function.name} takes {function.takes} values, got {len(numbers)}")
    if function.name == "where":
        return _chosen(function, *numbers).number
    return function.on_tensors(*(torch.tensor(one, dtype=torch.float64) for one in numbers)).item()


def symbol(name: str) -> Expression:
    """The symbol of this name."""
    return _known.setdefault(name, Expression(None, symbol=name))


def as_expression(value: Scalar) -> Expression:
    """A number as an expression; an expression as it is."""
    if isinstance(value, Expression):
        return value
    if not isinstance(value, Real):
        raise no_number(value)
    number = float(value)
    if number != number:
        raise StepError("a unit computes with numbers and expressions, got: nan")
    return _known.setdefault(number, Expression(None, number=number))


def as_number(value: Scalar) -> Expression:
    """The same; a condition counts as 1 where it is true and as 0 where it is not."""
    found = as_expression(value)
    return WHERE(found, 1.0, 0.0) if is_condition(found) else found


def is_condition(value: Any) -> bool:
    """Whether this is a comparison of expressions."""
    function = value.function if isinstance(value, Expression) else None
    return function is not None and function.is_condition


def is_number(value: Scalar, number: float) -> bool:
    """Whether this is exactly that number."""
    found = value.number if isinstance(value, Expression) else value
    return isinstance(found, int | float) and found == number


def in_order(results: Iterable[Expression], given: Iterable[Expression] = ()) -> list[Expression]:
    """All expressions that the results are made of, arguments before what uses them.

    What is `given` is taken as known: it is not in the list, and neither is what it is made of.
    """
    seen = set(given)
    found: list[Expression] = []

    def visit(expression: Expression) -> None:
        if expression not in seen:
            seen.add(expression)
            for argument in expression.arguments:
                visit(argument)
            found.append(expression)

    for result in results:
        visit(result)
    return found


def symbols_in(results: Iterable[Expression], given: Iterable[Expression] = ()) -> Iterator[str]:
    """The names of the symbols that the results depend on, beside what is given."""
    return (found.symbol for found in in_order(results, given) if found.symbol)


def fingerprint(results: Iterable[Expression]) -> str:
    """The results as text, the same for the same expressions in every process."""
    results = list(results)
    places: dict[Expression, int] = {}
    lines: list[str] = []
    for expression in in_order(results):
        of = ",".join(str(places[argument]) for argument in expression.arguments)
        name = expression.function.name if expression.function else expression.symbol
        places[expression] = len(lines)
        lines.append(f"{name}({of}){'' if expression.number is None else expression.number!r}")
    return ";".join((*lines, *(str(places[result]) for result in results)))


def evaluate(results: Iterable[Expression], values: dict[Expression, Any], like: Any) -> list[Any]:
    """The results on tensors, from the values of symbols and of other expressions.

    Numbers have the dtype of the tensor `like`: of numbers alone torch would take its default. What
    is computed on the way is added to `values`.
    """
    results = list(results)
    for expression in in_order(results, values):
        if expression.number is not None:
            values[expression] = like.new_full((), expression.number)
        elif expression.function is None:
            raise KeyError(f"no value for {expression}")
        else:
            arguments = (values[argument] for argument in expression.arguments)
            values[expression] = expression.function.on_tensors(*arguments)
    return [values[result] for result in results]


# ---- Arithmetic. Numbers that change nothing are left out, because derivatives are full of them.


def _operands(sign: str, *values: Scalar) -> list[Expression]:
    """What is calculated with. Comparisons are refused where torch makes something else of them."""
    compared = [is_condition(value) for value in values]
    if all(compared) or (sign == "-" and any(compared)):
        raise StepError(
            f"a comparison is no number for {sign!r}: write where(condition, 1.0, 0.0) in its place"
        )
    return [as_number(value) for value in values]


def add(a: Scalar, b: Scalar) -> Expression:
    a, b = _operands("+", a, b)
    if is_number(a, 0):
        return as_expression(b)
    if is_number(b, 0):
        return as_expression(a)
    b = as_expression(b)
    return subtract(a, b.arguments[0]) if b.function is NEGATE else ADD(a, b)


def subtract(a: Scalar, b: Scalar) -> Expression:
    a, b = _operands("-", a, b)
    if is_number(a, 0):
        return negate(b)
    return as_expression(a) if is_number(b, 0) else SUBTRACT(a, b)


def multiply(a: Scalar, b: Scalar) -> Expression:
    a, b = _operands("*", a, b)
    if is_number(a, 0) or is_number(b, 0):
        return as_expression(0.0)
    if is_number(a, 1):
        return as_expression(b)
    if is_number(a, -1):
        return negate(b)
    if is_number(b, 1) or is_number(b, -1):
        return multiply(b, a)
    return as_expression(MULTIPLY(a, b))


def divide(a: Scalar, b: Scalar) -> Expression:
    a, b = _operands("/", a, b)
    return as_expression(a) if is_number(b, 1) else as_expression(DIVIDE(a, b))


def negate(a: Scalar) -> Expression:
    (a,) = _operands("-", a)
    if a.number is not None:
        return as_expression(-a.number)
    return a.arguments[0] if a.function is NEGATE else as_expression(NEGATE(a))


def less(a: Scalar, b: Scalar) -> Expression | bool:
    found: Expression | bool = LESS(a, b)
    return found


_OF_NUMPY: dict[str, Callable[..., Any]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "negative": negate,
    "less": less,
    "greater": lambda a, b: less(b, a),
}


def _of_division(quotient: Expression) -> tuple[Scalar, Scalar]:
    _, divisor = quotient.arguments
    return 1 / divisor, -quotient / divisor


def _where(condition: Any, a: Any, b: Any) -> Any:
    import torch

    if isinstance(condition, bool):
        return a if condition else b
    return torch.where(condition, a, b)


def _of_where(of: Expression) -> tuple[Scalar | None, ...]:
    condition, _, _ = of.arguments
    return None, WHERE(condition, 1.0, 0.0), WHERE(condition, 0.0, 1.0)


WHERE = Function("where", _where, _of_where, has_dead_zones=True, takes=3)
ADD = Function("add", lambda a, b: a + b, lambda of: (1.0, 1.0), takes=2)
SUBTRACT = Function("subtract", lambda a, b: a - b, lambda of: (1.0, -1.0), takes=2)
MULTIPLY = Function("multiply", lambda a, b: a * b, lambda of: of.arguments[::-1], takes=2)
DIVIDE = Function("divide", lambda a, b: a / b, _of_division, takes=2)
NEGATE = Function("negate", lambda a: -a, lambda of: (-1.0,))
LESS = Function("less", lambda a, b: a < b, is_condition=True, takes=2)
