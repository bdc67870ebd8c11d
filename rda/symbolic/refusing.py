"""What is said where a unit's step does what no engine can, and what to write in its place."""

from __future__ import annotations

from typing import Any, NoReturn

INSTEAD = {
    "abs": "where(v < 0, -v, v)",
    "clip": "where(v < low, low, where(v > high, high, v))",
    "expm1": "exp(v) - 1",
    "leaky_relu": "where(v < 0, 0.01 * v, v)",
    "log1p": "log(1 + v)",
    "maximum": "where(a < b, b, a)",
    "minimum": "where(a < b, a, b)",
    "power": "v * v, or exp(p * log(v))",
    "reciprocal": "1 / v",
    "sign": "where(v < 0, -1.0, where(v > 0, 1.0, 0.0))",
    "silu": "v * sigmoid(v)",
    "sqrt": "exp(0.5 * log(v))",
    "square": "v * v",
}
"""What to write for functions that `rda.functions` does not have."""
OTHER_NAMES = {
    "absolute": "abs", "clamp": "clip", "expit": "sigmoid", "fabs": "abs", "fmax": "maximum",
    "fmin": "minimum", "logsigmoid": "log_sigmoid", "max": "maximum", "min": "minimum",
    "pow": "power",
}  # fmt: skip


class StepError(TypeError):
    """A unit's step does what it may not. The message says what, and what to write in its place."""


def instead(name: str) -> str:
    """What to write for a function of this name, of torch, numpy or math."""
    from rda.functions import __all__ as known

    name = OTHER_NAMES.get(name, name)
    if name in known:
        return f"use {name} of rda.functions"
    if name in INSTEAD:
        return f"write {INSTEAD[name]}"
    return f"rda.functions has {', '.join(known)}"


def no_number(value: object) -> StepError:
    """The error for what a step cannot compute with."""
    kind = type(value).__name__
    hint = ""
    if hasattr(value, "shape"):
        hint = ": make a plain number of it, or name it in `weights` where it is learned"
    return StepError(f"a unit computes with numbers and expressions, got: {kind}{hint}")


class Refusing:
    """What an expression answers to everything that is no arithmetic."""

    def __le__(self, other: object) -> bool:
        raise StepError("comparisons are < and >, without =")

    __ge__ = __le__

    def __pow__(self, other: object) -> NoReturn:
        raise StepError("there are no powers: write x * x, or exp(y * log(x))")

    __rpow__ = __pow__

    def __abs__(self) -> NoReturn:
        raise StepError(f"there is no abs: {instead('abs')}")

    def __bool__(self) -> bool:
        raise StepError(
            "a unit's step has no values while it is traced, so it cannot branch on one: "
            "use where(condition, a, b) in place of if, and, or, max and min"
        )

    def __and__(self, other: object) -> NoReturn:
        raise StepError(
            "conditions are not combined by & | ~: write where(one, where(other, a, b), b)"
        )

    __or__ = __rand__ = __ror__ = __and__

    def __invert__(self) -> NoReturn:
        raise StepError("conditions are not combined by & | ~: exchange a and b in where")

    def __matmul__(self, other: object) -> NoReturn:
        raise StepError(
            "a step has one product with a matrix, W h, which is computed before it: name the "
            "blocks of W in `recurrent`"
        )

    __rmatmul__ = __matmul__

    def __float__(self) -> float:
        raise StepError(
            "a unit's step has no values while it is traced, so neither float nor a function of "
            f"math can compute with one: {instead('')}"
        )

    __int__ = __index__ = __round__ = __float__

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> NoReturn:
        for each in arguments:
            if hasattr(each, "shape"):
                raise no_number(each)
        name = function.__name__
        raise StepError(
            f"torch's {name} computes with tensors, and a step has none: {instead(name)}"
        )

    def __array_function__(
        self, function: Any, types: Any, arguments: Any, options: Any
    ) -> NoReturn:
        raise of_numpy(function)


def of_numpy(function: Any) -> StepError:
    """The error for a function of numpy."""
    name = function.__name__
    return StepError(f"numpy's {name} computes with arrays, and a step has none: {instead(name)}")
