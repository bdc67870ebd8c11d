"""How runs came about: what was set, what is usual, and where they ran."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rda.report.reading import Facts, Run
from rda.report.summary import NOT_IN_THE_PAPER, labels, usual_settings
from rda.report.wording import MISSING, shown
from rda.training.settings import RunSettings

OF_ONE_START = ("from step", "command")


@dataclass(frozen=True)
class Setting:
    """One setting over all the runs."""

    name: str
    values: tuple[str, ...]
    """The value; where runs differ, each value with the runs that have it."""
    usual: str
    """The paper's or default value if a run has another one, otherwise empty."""


def settings_used(runs: Sequence[Run]) -> list[Setting]:
    """Every setting that says something, and which run has which value where they differ."""
    usual = _values(usual_settings(runs[0].settings))
    used = [_values(run.settings) for run in runs]
    names = labels(runs)
    found = []
    for name in dict.fromkeys(name for values in used for name in values):
        values = [one.get(name) for one in used]
        theirs = usual.get(name)
        same = name in NOT_IN_THE_PAPER or all(value == theirs for value in values)
        if any(map(_says_something, [name] * len(values), values)) or not same:
            found.append(Setting(name, _by_run(values, names), "" if same else shown(theirs)))
    return found


def _values(settings: RunSettings) -> dict[str, Any]:
    return asdict(settings.task) | asdict(settings.recipe) | asdict(settings.limits)


def _says_something(name: str, value: Any) -> bool:
    """0, no and empty turn a setting off, which needs no row; seed 0 is a seed."""
    return name == "seed" or value not in (0, "", None)


def _by_run(values: Sequence[Any], names: Sequence[str]) -> tuple[str, ...]:
    users: dict[str, list[str]] = {}
    for value, name in zip(values, names, strict=True):
        users.setdefault(shown(value), []).append(name)
    if len(users) == 1:
        return tuple(users)
    return tuple(f"{value}: {', '.join(who)}" for value, who in users.items())


def shared_environment(runs: Sequence[Run]) -> Facts:
    """What every start of every run has in common."""
    first, *others = [start for run in runs for start in run.starts] or [{}]
    return {
        name: value
        for name, value in first.items()
        if name not in OF_ONE_START and all(start.get(name) == value for start in others)
    }


def own_environment(start: Mapping[str, str], shared: Facts) -> Facts:
    """What one start has beside the shared facts."""
    return {
        name: value
        for name, value in start.items()
        if name not in shared and not (name == "from step" and value == "0") and value != MISSING
    }
