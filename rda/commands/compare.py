"""rda compare: several units on one task, one table, one picture, one page."""

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console

from rda.commands.arguments import UsageError, take_task, take_units, wants_help
from rda.commands.progress import TrainingProgress
from rda.commands.train import (
    outcome,
    parse_training,
    settings_for,
    starting_point,
    task_list,
)
from rda.commands.training import (
    Training,
    check,
    default_name,
    folder_for,
    read_files,
    train_one,
)
from rda.labels import COMPARED, UNIT_LABELS
from rda.training.record import FAILED, INTERRUPTED, SETTINGS, Record
from rda.training.settings import RunSettings


def run(given: list[str]) -> int:
    """Train what is not trained yet, then show all of it side by side."""
    if not given or (given[0].startswith("-") and wants_help(given)):
        print(_help(), end="")
        return 0 if given else 2
    task, rest = take_task("rda compare", given)
    units, rest = take_units(rest)
    start, rest = starting_point(task, UNIT_LABELS[0], rest)
    asked = parse_training(f"rda compare {task} UNIT UNIT ...", rest, start)
    return compare(asked, units or list(COMPARED), shlex.join(["rda", "compare", *given]))


def compare(asked: Training[Any], units: list[str], command: str) -> int:
    """0 when every unit was trained to its goal or to a limit, which is a result too."""
    for unit in units:
        if units.count(unit) > 1:
            raise UsageError(f"unit {unit} is named twice")
    name = asked.place.name or _default_name(settings_for(asked, units[0]), units)
    folder = folder_for(asked.place, name)
    if (folder / SETTINGS).exists():
        raise UsageError(f"{name} is a run: give the comparison another --name")
    check(asked.machine, asked.place, name)
    files = read_files(asked.task, asked.place)
    progress = TrainingProgress()
    folders: list[Path] = []
    failed = interrupted = False
    for unit in units:
        try:
            one, state = _train(settings_for(asked, unit), asked, files, progress)
        except UsageError as error:  # one unit's run cannot be had; the others still can
            if unit == units[-1] and not folders:
                raise
            progress.say(f"{unit}: {error}")
            failed = True
            continue
        folders.append(one)
        failed |= state == FAILED
        interrupted = state == INTERRUPTED
        if interrupted:
            break
    _show([Record(one) for one in folders], folder, command)
    return 130 if interrupted else 1 if failed else 0


def _train(
    settings: RunSettings,
    asked: Training[Any],
    files: dict[str, bytes] | None,
    progress: TrainingProgress,
) -> tuple[Path, str]:
    name = default_name(settings)
    folder, status = train_one(settings, asked.machine, asked.place, name, files, progress)
    progress.say(outcome(settings.unit, status))
    return folder, status.state


def _show(records: list[Record], folder: Path, command: str) -> None:
    from rda.report.curves import panels
    from rda.report.figure import save_curves
    from rda.report.headline import headline
    from rda.report.page import write_page
    from rda.report.summary import summarise
    from rda.report.tables import comparison_table
    from rda.report.terminal import draw

    console = Console()
    task = records[0].settings.task
    summaries = [summarise(record) for record in records]
    console.print()
    console.print(draw(panels(records)[-1], width=min(console.width, 100)))
    console.print(comparison_table(summaries, task.goal))
    console.print(headline(summaries, task.goal), markup=False, highlight=False)
    picture, page = folder / "curves.png", folder / "index.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_curves(picture, records)
        write_page(page, task.title, records, command)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    for label, path in (("picture", picture), ("page", page)):
        console.print(f"{label}: {path}", markup=False, highlight=False, soft_wrap=True)


def _default_name(settings: RunSettings, units: list[str]) -> str:
    """As the first run's, with all units in the place of its own."""
    compared = "" if tuple(units) == COMPARED else f"-{'-'.join(units)}"
    name = f"compare-{default_name(settings)}".replace(f"-{settings.unit}", compared, 1)
    return name[:100]


def _help() -> str:
    return f"""\
usage: rda compare TASK [UNIT ...] [settings]

Train several units on one task, one after the other, and show them side by side: a table of
steps to the goal, learning curves here and as a picture, and a page with all of it. Runs that
are finished are not trained again. Without units: {", ".join(COMPARED)}.

Tasks:
{task_list()}

Examples:
  rda compare multicopy --small
  rda compare addition RDA-exp-tanh RWA LSTM --length 200 --steps 3000
  rda compare copy RDA-relu-tanh RDA-softplus-tanh RDA-exp-tanh --small

All that can be set: rda compare TASK --help
"""
