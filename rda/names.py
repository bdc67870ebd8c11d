"""Lookup by a name that a person typed, with a hint if the name is wrong."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

Entry = TypeVar("Entry")


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
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.5)
    near = near or [key for key in by_lower_case if name and key.startswith(name.lower())][:1]
    hint = f" Did you mean {by_lower_case[near[0]]!r}?" if near else ""
    return f"unknown {kind} {name!r}.{hint} Valid names: {', '.join(names)}"
