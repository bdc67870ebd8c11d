"""Command lines to dataclasses, and what is wrong with them in one line."""

import contextlib
import io
import re
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

from rda.labels import UNIT_LABELS
from rda.names import unknown_name
from rda.tasks.settings import TASKS

Arguments = TypeVar("Arguments")


class UsageError(Exception):
    """What a person asked for cannot be done as asked; one line, exit code 2."""


def parse(
    default: Arguments, command: str, given: Sequence[str], description: str, kind: Any = None
) -> Arguments:
    """`default` with what `given` changes of it; --help prints and exits.

    `kind` is its type, where that is more than its class tells.
    """
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed: tuple[Arguments, list[str]] = tyro.cli(
                type(default) if kind is None else kind,
                prog=command,
                description=description,
                args=list(given),
                default=default,
                return_unknown_args=True,
                config=(tyro.conf.OmitArgPrefixes,),
            )
    except SystemExit as exit:
        if exit.code in (None, 0):
            raise
        raise UsageError(f"{_first_paragraph(complaint.getvalue())} ({command} --help)") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{' '.join(str(error).split())} ({command} --help)") from None
    found, unknown = parsed
    if unknown:
        raise UsageError(_unknown_argument(unknown[0], found, command))
    return found


def _unknown_argument(argument: str, found: object, command: str) -> str:
    if not argument.startswith("-"):
        return f"{argument!r} was not expected here ({command} --help)"
    valid = sorted({*_options(found), "--small"})
    hint = unknown_name("option", argument.partition("=")[0], valid)
    return f"{hint.partition(' Valid names')[0]} ({command} --help)"


def _options(found: object) -> set[str]:
    names = set()
    for name, value in vars(found).items():
        if hasattr(value, "__dataclass_fields__"):
            names |= _options(value)
        else:
            names.add(f"--{name.replace('_', '-')}")
    return names


def _first_paragraph(box: str) -> str:
    """The text of the box in which tyro frames a complaint, without its frame and its advice."""
    lines = []
    for line in box.splitlines():
        text = re.sub(r"[│╭╮╰╯]", "", line).strip()
        if text and not text.strip("─"):
            break
        if text and not text.startswith("─"):
            lines.append(text)
    return " ".join(lines) or "the arguments were not understood"


def take_task(command: str, given: list[str]) -> tuple[str, list[str]]:
    """The task that stands first, and the rest."""
    if not given or given[0].startswith("-"):
        raise UsageError(f"{command} needs a task: {', '.join(TASKS)}")
    if given[0] not in TASKS:
        raise UsageError(unknown_name("task", given[0], TASKS))
    return given[0], given[1:]


def take_units(given: list[str]) -> tuple[list[str], list[str]]:
    """The units that stand before the first option, and the rest."""
    units = []
    while given and not given[0].startswith("-"):
        if given[0] not in UNIT_LABELS:
            raise UsageError(unknown_name("unit", given[0], UNIT_LABELS))
        units.append(given[0])
        given = given[1:]
    return units, given


def wants_help(given: Sequence[str]) -> bool:
    """Whether --help is asked for."""
    return any(argument in ("-h", "--help") for argument in given)


def take_flag(name: str, given: list[str]) -> tuple[bool, list[str]]:
    """Whether a flag is there, and the rest without it."""
    return name in given, [argument for argument in given if argument != name]
