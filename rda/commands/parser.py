"""Command lines to settings: one parser, its options made from the fields of dataclasses.

Options have no defaults of their own: what a person does not give keeps the value of the task's
preset. The docstring under a field is the help of its option.
"""

import argparse
import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

from rda.names import unknown_name


class UsageError(Exception):
    """What a person asked for cannot be done as asked; one line, exit code 2."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Leaves room for the names of options beside their help."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


class Parser(argparse.ArgumentParser):
    """Complains in one line, with the nearest name where a name is wrong."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _Help)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{' '.join(message.split())} ({self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            kind = action.option_strings[0] if action.option_strings else action.dest
            raise UsageError(unknown_name(kind, str(value), list(action.choices)))

    def parse(self, given: Sequence[str], start: argparse.Namespace) -> argparse.Namespace:
        """What was given, added to `start`; an error for whatever is left over."""
        found, unknown = self.parse_known_args(list(given), start)
        if unknown:
            _refuse(unknown[0], found.parser)
        return found


def _refuse(argument: str, parser: argparse.ArgumentParser) -> NoReturn:
    if not argument.startswith("-"):
        raise UsageError(f"{argument!r} was not expected here ({parser.prog} --help)")
    options = [name for name in parser._option_string_actions if name.startswith("--")]
    hint = unknown_name("option", argument.partition("=")[0], sorted(options))
    raise UsageError(f"{hint.partition(' Valid names')[0]} ({parser.prog} --help)")


def add_options(
    parser: argparse.ArgumentParser,
    title: str,
    owner: type,
    explain: bool,
    presets: Sequence[tuple[str, object]] = (),
) -> None:
    """An option for each field of a dataclass.

    Help texts are read from the source, so they are made only where `explain` asks for them.
    `presets` are named instances whose values are shown as defaults.
    """
    group = parser.add_argument_group(title)
    docs = field_docs(owner) if explain else {}
    hints = get_type_hints(owner)
    for field in fields(owner):
        name = f"--{field.name.replace('_', '-')}"
        text = docs.get(field.name, "")
        if explain:
            default = _default(field, presets)
            text = (f"{text} ({default})" if default else text).replace("%", "%%")
        kind = hints[field.name]
        options: dict[str, Any] = {"default": argparse.SUPPRESS, "help": text, "dest": field.name}
        if kind is bool:
            plain = not presets and field.default is False
            options["action"] = "store_true" if plain else argparse.BooleanOptionalAction
        else:
            options["metavar"] = name[2:].rpartition("-")[2].upper()
            options |= _value(kind)
        group.add_argument(name, **options)


def _value(kind: Any) -> dict[str, Any]:
    """How a value of this type is read."""
    if get_origin(kind) is not None:
        choices = get_args(kind)
        return {"choices": choices, "metavar": "|".join(choices)}
    return {"type": _CONVERTERS.get(kind, kind)}


def _converter(convert: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return convert(text)
        except (ValueError, OverflowError):
            raise argparse.ArgumentTypeError(f"should be {expected}, got {text!r}") from None

    return read


def folder(text: str) -> Path:
    """A folder as a person types it: not empty, `~` for the home folder."""
    if not text:
        raise argparse.ArgumentTypeError("should name a folder, got ''")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be found: {error}") from None


_CONVERTERS: dict[Any, Callable[[str], Any]] = {
    int: _converter(int, "a whole number"),
    float: _converter(float, "a number"),
    Path: folder,
}


def _default(field: Any, presets: Sequence[tuple[str, object]]) -> str:
    """The default in words: of the field, or of each preset where they differ."""
    if not presets:
        value = field.default_factory() if field.default is MISSING else field.default
        return "" if value == "" else f"default: {_shown(value)}"
    values = [(label, _shown(getattr(preset, field.name))) for label, preset in presets]
    if len({value for _, value in values}) == 1:
        return f"default: {values[0][1]}" if values[0][1] else ""
    return "; ".join(f"{label}: {value}" for label, value in values)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def field_docs(owner: type) -> dict[str, str]:
    """The docstrings under the fields of a dataclass and of those it derives from."""
    found: dict[str, str] = {}
    for one in reversed(owner.__mro__):
        if "__dataclass_fields__" in vars(one):
            found |= _docs_in(one)
    return found


@cache  # the help of `rda train` asks for those of Recipe once for each task
def _docs_in(owner: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):  # defined where there is no source
        return {}
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    return {
        before.target.id: " ".join(after.value.value.split())
        for before, after in pairwise(body)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


def given_values(asked: argparse.Namespace, owner: type) -> dict[str, Any]:
    """The values of a dataclass's fields that were given on the command line."""
    names = (field.name for field in fields(owner))
    return {name: getattr(asked, name) for name in names if hasattr(asked, name)}


def make(owner: Callable[..., Any], values: dict[str, Any]) -> Any:
    """An instance from values that a person gave; what is wrong with them is a UsageError."""
    try:
        return owner(**values)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(" ".join(str(error).split())) from error


def wants_help(given: Iterable[str]) -> bool:
    """Whether help is asked for."""
    return any(argument in ("-h", "--help") for argument in given)
