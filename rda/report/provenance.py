"""How runs came about: what was set, what the paper sets, and where they ran."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rda.report.summary import NOT_IN_THE_PAPER, labels
from rda.report.wording import MISSING
from rda.training.record import Record
from rda.training.settings import RunSettings, paper_settings

OF_ONE_START = ("from step", "command")

Facts = dict[str, str]


@dataclass(frozen=True)
class Setting:
    """One setting over all the runs."""

    name: str
    values: tuple[str, ...]
    """One, or each that occurs with the runs that have it."""
    paper: str
    """The paper's value where the run's is another, otherwise empty."""


def settings_used(records: Sequence[Record]) -> list[Setting]:
    """Every setting, and who has which value where the runs differ."""
    first = records[0].settings
    paper = _values(paper_settings(first.task.name, first.unit))
    used = [_values(record.settings) for record in records]
    names = labels([record.settings.unit for record in records], [r.name for r in records])
    found = []
    for name, theirs in paper.items():
        values = [one[name] for one in used]
        same = name in NOT_IN_THE_PAPER or all(value == theirs for value in values)
        found.append(Setting(name, _by_run(values, names), "" if same else _shown(theirs)))
    return found


def _values(settings: RunSettings) -> dict[str, Any]:
    return asdict(settings.task) | asdict(settings.recipe) | asdict(settings.limits)


def _by_run(values: Sequence[Any], names: Sequence[str]) -> tuple[str, ...]:
    users: dict[str, list[str]] = {}
    for value, name in zip(values, names, strict=True):
        users.setdefault(_shown(value), []).append(name)
    if len(users) == 1:
        return tuple(users)
    return tuple(f"{value}: {', '.join(who)}" for value, who in users.items())


def shared_environment(records: Sequence[Record]) -> Facts:
    """What every start of every run has in common."""
    first, *others = [start for record in records for start in starts_of(record)] or [{}]
    return {
        name: value
        for name, value in first.items()
        if name not in OF_ONE_START and all(start.get(name) == value for start in others)
    }


def starts_of(record: Record) -> list[Facts]:
    """Each start of a run, as names and texts."""
    return [dict(_flat(entry)) for entry in record.environment]


def _flat(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in entry.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, dict):
            yield from _flat(value, f"{name} ")
        else:
            yield name, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return MISSING if value is None else str(value)
