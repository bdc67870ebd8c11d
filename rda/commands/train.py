"""rda train: one unit on one task."""

import inspect
from pathlib import Path
from types import GenericAlias
from typing import Any

from rda.commands.arguments import (
    UsageError,
    parse,
    take_flag,
    take_task,
    take_units,
    wants_help,
)
from rda.commands.progress import TrainingProgress
from rda.commands.training import (
    EXIT_CODES,
    Training,
    check,
    default_name,
    defaults,
    read_files,
    train_one,
)
from rda.labels import COMPARED, UNIT_LABELS
from rda.tasks.settings import TASKS
from rda.training.record import FAILED, Status
from rda.training.settings import RunSettings, paper_settings, small_settings
from rda.training.settings_file import SettingsError, read_settings


def run(given: list[str]) -> int:
    """Train, or go on training, and say how it ended."""
    if not given or (given[0].startswith("-") and wants_help(given)):
        print(_help(), end="")
        return 0 if given else 2
    start, rest = _start(given)
    asked = parse_training(f"rda train {start.task.name} UNIT", rest, start)
    settings = settings_for(asked, start.unit)
    progress = TrainingProgress()
    name = asked.place.name or default_name(settings)
    check(asked.machine, asked.place, name)
    files = read_files(settings.task, asked.place)
    folder, status = train_one(settings, asked.machine, asked.place, name, files, progress)
    progress.say(outcome(settings.unit, status))
    progress.say(f"the record is in {folder}; rda show {folder.name} draws its curve")
    return EXIT_CODES[status.state]


def parse_training(command: str, given: list[str], start: RunSettings) -> Training[Any]:
    """The options of a training, with those of `start` where none are given."""
    description = (
        f"{inspect.getdoc(type(start.task))} --small starts from the small twin of the task "
        f"instead of the paper's sizes. Units: {', '.join(UNIT_LABELS)}."
    )
    kind = GenericAlias(Training, (type(start.task),))
    return parse(defaults(start), command, given, description, kind)


def settings_for(asked: Training[Any], unit: str) -> RunSettings:
    """The settings of one unit's run."""
    try:
        return RunSettings(asked.task, unit, asked.recipe, asked.limits)
    except ValueError as error:
        raise UsageError(str(error)) from error


def starting_point(task: str, unit: str, rest: list[str]) -> tuple[RunSettings, list[str]]:
    """The paper's sizes, or with --small the small twin's, and the rest of the arguments."""
    small, rest = take_flag("--small", rest)
    return (small_settings if small else paper_settings)(task, unit), rest


def outcome(unit: str, status: Status) -> str:
    """One line on how a run ended."""
    rate = f", {status.step / status.seconds:.3g} steps/s" if status.seconds else ""
    line = f"{unit}: {status.state}, {status.reason} ({status.step} steps{rate})"
    if status.test:
        tested = (f"{name.replace('_', ' ')} {value:.4g}" for name, value in status.test.items())
        line += f"; best at step {status.best_step}: {', '.join(tested)}"
    if status.state == FAILED:
        line += "; the last good checkpoint is kept"
    return line


def _start(given: list[str]) -> tuple[RunSettings, list[str]]:
    if given[0].endswith(".toml"):
        try:
            return read_settings(Path(given[0])), given[1:]
        except SettingsError as error:
            raise UsageError(str(error)) from error
    task, rest = take_task("rda train", given)
    units, rest = take_units(rest)
    if not units and wants_help(rest):
        return starting_point(task, UNIT_LABELS[0], rest)
    if len(units) != 1:
        wanted = f"rda train {task} needs one unit before its options: {', '.join(COMPARED)}, ..."
        raise UsageError(wanted + ("; rda compare takes several" if units else ""))
    return starting_point(task, units[0], rest)


def task_list() -> str:
    """A line for each task."""
    return "\n".join(f"  {name:<16} {inspect.getdoc(task)}" for name, task in TASKS.items())


def _help() -> str:
    return f"""\
usage: rda train TASK UNIT [--small] [settings]
       rda train FILE.toml [settings]

Train one unit on one of the paper's tasks until it reaches the task's goal, or a limit. The
same command goes on where it stopped. --small takes the small twin of a task instead of the
paper's sizes. The settings.toml of a run can stand for TASK UNIT: it makes the run that those
settings name, or goes on with it.

Tasks:
{task_list()}

Units: {", ".join(COMPARED)};
section 6.2's others: {", ".join(label for label in UNIT_LABELS if label not in COMPARED)}

Examples:
  rda train multicopy RDA-exp-tanh --small             in a minute on a laptop
  rda train addition RWA --length 200 --steps 5000
  rda train copy LSTM --stop-at trailing --minutes 30
  rda train mnist GRU --data-dir ~/data --device cuda
  rda train runs/copy-LSTM-seed0/settings.toml --seed 1

All that can be set: rda train TASK --help
"""
