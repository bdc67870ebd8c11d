"""rda compare: several units on one task, one table, one picture, one page."""

import argparse
import hashlib
from pathlib import Path

from rda.choosing.terms import Terms
from rda.commands.choosing import choose
from rda.commands.many import Trained, called, seeded, seeds_and_cluster, train_on
from rda.commands.parser import Parser, UsageError, given_values, make
from rda.commands.training import (
    add_tasks,
    as_usage_errors,
    check,
    folder_for,
    machine_and_place,
    outcome,
    read_files,
    settings_from,
    train_one,
    unit_argument,
)
from rda.labels import COMPARED
from rda.options import Cluster, Machine, Place
from rda.training.record import SETTINGS, Record
from rda.training.settings import RunSettings, default_name
from rda.training.status import FAILED, INTERRUPTED

HERE = Cluster()
SUMMARY = "several units on one task: a table, a picture, a page"
DESCRIPTION = f"""\
Train several units on one task, one after the other, and show them side by side: a table of
steps to the goal, learning curves here and as a picture, and a page with all of it. Runs that
are finished are not trained again. --seeds repeats every run with other seeds, --on ray trains all
of them at once. Without units: {", ".join(COMPARED)}.
"""
EXAMPLES = """\
Examples:
  rda compare multicopy --small
  rda compare addition RDA-exp-tanh RWA LSTM --length 200 --steps 3000
  rda compare copy RDA-relu-tanh RDA-softplus-tanh RDA-exp-tanh --small
  rda compare multicopy --small --seeds 4 --on ray     four seeds of each, on all cores
  rda compare --data machines.csv                      which unit suits sequences of your own

All that can be set about a task: rda compare TASK --help
About sequences of your own:      rda compare sequences --help
"""


def add(parser: Parser, explain: bool) -> None:
    """The tasks as subcommands."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.usage = "rda compare TASK [UNIT ...] [--small] [options]"
    add_tasks(parser, explain, "[UNIT ...]", {"sequences": ("comparison", Terms)})


def run(asked: argparse.Namespace, command: str) -> int:
    """Train what is not trained yet, then show all of it side by side."""
    units = [unit_argument(name) for name in asked.unit] or list(COMPARED)
    for unit in units:
        if units.count(unit) > 1:
            raise UsageError(f"unit {unit} is named twice")
    runs = [settings_from(asked, unit) for unit in units]
    seeds, cluster = seeds_and_cluster(asked)
    if asked.task == "sequences":
        terms: Terms = make(Terms, given_values(asked, Terms))
        return choose(runs, terms, *machine_and_place(asked), command, cluster)
    return compare(runs, *machine_and_place(asked), command, seeds, cluster)


def compare(
    runs: list[RunSettings], machine: Machine, place: Place, command: str, seeds: int = 1,
    cluster: Cluster = HERE,
) -> int:  # fmt: skip
    """0 when every unit was trained to its goal or to a limit, which is a result too."""
    name = place.name or _default_name(runs)
    folder = folder_for(place, name)
    if (folder / SETTINGS).exists():
        raise UsageError(f"{name} is a run: give the comparison another --name")
    check(machine, place, [settings.unit for settings in runs], here=not cluster.on)
    repeated = seeded(runs, seeds)
    if cluster.on:
        named = {default_name(settings): settings for settings in repeated}
        trained = train_on(named, cluster, machine, place, command)
    else:
        trained = _train_here(repeated, machine, place, command, seeds)
    if trained.records:
        _show(trained.records, folder, command)
    return 130 if trained.stopped else 1 if trained.failed else 0


def _train_here(
    runs: list[RunSettings], machine: Machine, place: Place, command: str, seeds: int
) -> Trained:
    from rda.training.progress import TrainingProgress

    files = read_files(runs[0], place)
    progress = TrainingProgress()
    trained = Trained()
    for settings in runs:
        one = default_name(settings)
        try:
            record = train_one(settings, machine, place, one, files, progress, command)
        except UsageError as error:  # this unit cannot be trained; the others still can
            if settings is runs[-1] and not trained.records:
                raise
            progress.say(f"{called(settings, seeds)}: {error}")
            trained.failed = True
            continue
        trained.records.append(record)
        status = record.status
        progress.say(outcome(called(settings, seeds), status))
        trained.failed |= status.state == FAILED
        if status.state == INTERRUPTED:
            trained.stopped = INTERRUPTED
            break
    return trained


def _show(records: list[Record], folder: Path, command: str) -> None:
    from rich.console import Console

    from rda.report.comparison import build_comparison
    from rda.report.terminal import render_terminal
    from rda.report.writing import write_report

    console = Console()
    with as_usage_errors():
        comparison = build_comparison(records)
    console.print()
    console.print(render_terminal(comparison, min(console.width, 100)))
    try:
        written = write_report(folder, comparison, command)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    for label, path in zip(written._fields, written, strict=True):
        console.print(f"{label}: {path}", markup=False, highlight=False, soft_wrap=True)


def _default_name(runs: list[RunSettings]) -> str:
    """The name of the first run, with its unit replaced by all units."""
    units = tuple(settings.unit for settings in runs)
    compared = "" if units == COMPARED else f"-{'-'.join(units)}"
    name = f"compare-{default_name(runs[0])}".replace(f"-{units[0]}", compared, 1)
    if len(name) <= 100:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[:93]}-{digest}"
