"""rda train: one unit on one task."""

import argparse
from pathlib import Path

from rda.commands.many import called, seeded, seeds_and_cluster, train_on
from rda.commands.parser import Parser, UsageError
from rda.commands.training import (
    add_tasks,
    check,
    machine_and_place,
    outcome,
    read_files,
    settings_from,
    show_command,
    train_one,
    unit_argument,
    unit_list,
)
from rda.labels import COMPARED
from rda.options import Cluster, Machine, Place
from rda.training.record import Record, status_in
from rda.training.settings import RunSettings, default_name
from rda.training.settings_file import SettingsError, read_settings
from rda.training.status import EXIT_CODES, FAILED, INTERRUPTED, STATES, Status
from rda.training.torchrun import by_torchrun, follows

SUMMARY = "train one unit on one task; the same command continues where it stopped"
DESCRIPTION = """\
Train one unit on one task until it reaches the task's goal, or a limit. The same command
continues where it stopped. --small takes a smaller version of the task instead of the full size,
which is the paper's size for the paper's tasks. The settings.toml of a run can be given instead
of TASK UNIT: it trains a run with those settings.
"""
EXAMPLES = """\
Examples:
  rda train multicopy RDA-exp-tanh --small             in a minute on a laptop
  rda train addition RWA --length 200 --steps 5000
  rda train copy LSTM --stop-at trailing --minutes 30
  rda train mnist GRU --data-dir ~/data --device cuda
  rda train runs/copy-LSTM-seed0/settings.toml --seed 1
  rda train copy LSTM --seeds 5 --on ray://head:10001      five seeds on a Ray cluster

All that can be set about a task: rda train TASK --help
"""


def add(parser: Parser, explain: bool) -> None:
    """The tasks as subcommands."""
    parser.description = DESCRIPTION
    parser.epilog = f"Units: {unit_list()}\n\n{EXAMPLES}"
    parser.usage = "rda train TASK UNIT [--small] [options]\n       rda train FILE.toml [options]"
    add_tasks(parser, explain, "UNIT")


def with_settings_file(given: list[str]) -> tuple[list[str], RunSettings | None]:
    """If a settings file is given: the line with TASK UNIT in its place, and the settings."""
    if len(given) < 2 or given[0] != "train" or not given[1].endswith(".toml"):
        return given, None
    try:
        start = read_settings(Path(given[1]))
    except SettingsError as error:
        raise UsageError(str(error)) from error
    return ["train", start.task.name, start.unit, *given[2:]], start


def run(asked: argparse.Namespace, command: str) -> int:
    """Train, or continue training, and say how it ended."""
    from rda.training.progress import TrainingProgress

    settings = settings_from(asked, _one_unit(asked))
    machine, place = machine_and_place(asked)
    seeds, cluster = seeds_and_cluster(asked)
    if seeds > 1 or cluster.on:
        return _many(settings, seeds, cluster, machine, place, command)
    name = place.name or default_name(settings)
    check(machine, place, [settings.unit])
    files = read_files(settings, place)
    progress = TrainingProgress(silent=follows())
    for line in settings.task.told():
        progress.say(line)
    before = status_in(place.runs_dir / name)
    record = train_one(settings, machine, place, name, files, progress, command)
    status = record.status
    if follows():
        return _exit_code(status)
    _keep_intervals(record)
    progress.say(outcome(settings.unit, status))
    if status == before:
        progress.say("it had ended before; another --seed or --name makes another run")
    progress.say(f"the record is in {record.folder}; {show_command(record.folder)} draws its curve")
    return _exit_code(status)


def _many(
    settings: RunSettings, seeds: int, cluster: Cluster, machine: Machine, place: Place,
    command: str,
) -> int:  # fmt: skip
    """One run after the other here, or all of them on a cluster; the worst exit code of all."""
    if place.name and seeds > 1:
        raise UsageError("--name is for one run: with --seeds each has a name of its own")
    runs = {place.name or default_name(run): run for run in seeded([settings], seeds)}
    check(machine, place, [settings.unit], here=not cluster.on)
    if cluster.on:
        trained = train_on(runs, cluster, machine, place, command)
        for record in trained.records:
            _keep_intervals(record)
        codes = [_exit_code(record.status) for record in trained.records]
        return 130 if trained.stopped else 1 if trained.failed else max(codes, default=1)
    from rda.training.progress import TrainingProgress

    files = read_files(settings, place)
    progress = TrainingProgress()
    codes = []
    for name, run in runs.items():
        record = train_one(run, machine, place, name, files, progress, command)
        _keep_intervals(record)
        progress.say(outcome(called(run, seeds), record.status))
        codes.append(_exit_code(record.status))
        if record.status.state == INTERRUPTED:
            break
    return max(codes)


def _exit_code(status: Status) -> int:
    """Under torchrun a run that has ended is 0, at its goal or not: all else is started again.

    A run whose process was killed elsewhere, or goes on there, has failed here.
    """
    if by_torchrun() and status.ended:
        return 0
    return EXIT_CODES.get(status.state, EXIT_CODES[FAILED])


def _keep_intervals(record: Record) -> None:
    """How far a forecast may be off is found where its data is at hand."""
    status = record.status
    forecasts = getattr(record.settings.task, "problem", "") == "forecast"
    if forecasts and status.best_step and status.state in STATES and not status.thinned:
        from rda.training.intervals import intervals_of

        intervals_of(record)


def _one_unit(asked: argparse.Namespace) -> str:
    units = [unit_argument(name) for name in asked.unit]
    if len(units) != 1:
        wanted = f"rda train {asked.task} needs one unit before its options: {', '.join(COMPARED)}"
        raise UsageError(wanted + ("; rda compare takes several" if units else ""))
    return units[0]
