"""Expressions as statements of C++ or CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rda.symbolic.expressions import Expression, in_order


class Printer:
    """Writes statements, each of which computes one expression from earlier ones.

    `templates` has the text of each function, with {0}, {1}, ... for its arguments, or a function
    that makes the text. `names` are the variables of what is known.
    """

    def __init__(
        self,
        value_type: str,
        number: Callable[[float], str],
        templates: Mapping[str, str | Callable[[Printer, Expression], str]],
        names: Mapping[Expression, str],
    ) -> None:
        self.value_type, self.number, self.templates = value_type, number, templates
        self.names: dict[Expression, str] = dict(names)
        self.lines: list[str] = []
        self._shared: dict[tuple[str, Expression], str] = {}

    def compute(self, results: Iterable[Expression]) -> list[str]:
        """Write what computes the results, and return their variables."""
        results = list(results)
        for expression in in_order(results, self.names):
            self.names[expression] = self._written(expression)
        return [self.names[result] for result in results]

    def _written(self, expression: Expression) -> str:
        if expression.number is not None:
            return self.number(expression.number)
        if expression.function is None:
            raise KeyError(f"there is no variable for {expression}")
        template = self.templates[expression.function.name]
        if not isinstance(template, str):
            text = template(self, expression)
        else:
            text = template.format(*(self.names[argument] for argument in expression.arguments))
        if expression.function.is_condition:
            return f"({text})"
        return self._variable(self.value_type, text)

    def shared(self, kind: str, text: str, argument: Expression) -> str:
        """The variable with a value of another type, computed once for each argument."""
        key = kind, argument
        if key not in self._shared:
            self._shared[key] = self._variable(kind, text.format(self.names[argument]))
        return self._shared[key]

    def _variable(self, kind: str, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {text};")
        return name
