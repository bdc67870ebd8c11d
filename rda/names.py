"""Lookup by a name that a person typed, with a hint if the name is wrong."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

Entry = TypeVar("Entry")

NEAR = 0.65
"""A name with less in common is no hint: of letters alone half are shared by chance."""


def look_up(kind: str, name: object, table: Mapping[str, Entry]) -> Entry:
    """The entry of `table` under `name`. A wrong name is an error that tells the nearest one."""
    if not isinstance(name, str):
        raise TypeError(f"{kind} should be a name, got: {type(name).__name__}")
    if name not in table:
        raise ValueError(unknown_name(kind, name, table))
    return table[name]


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> str:
    """One line with the name that was given, the nearest valid name, and all valid names."""
    names = list(valid)
    by_lower_case = {_bare(candidate): candidate for candidate in names}
    given = _bare(name)
    near = get_close_matches(given, by_lower_case, n=1, cutoff=NEAR)
    near = near or [key for key in by_lower_case if given and key.startswith(given)][:1]
    hint = f" Did you mean {by_lower_case[near[0]]!r}?" if near else ""
    return f"unknown {kind} {name!r}.{hint} Valid names: {', '.join(names)}"


def _bare(name: str) -> str:
    """What makes a name like another: not its capitals, nor the dashes that all options have."""
    return name.lower().lstrip("-")
