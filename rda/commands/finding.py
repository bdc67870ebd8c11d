"""A run by its name or its folder, and the model of text that it trained."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rda
from rda.commands.parser import UsageError
from rda.commands.training import as_usage_errors
from rda.names import unknown_name
from rda.training.record import SETTINGS, Record, run_folders
from rda.training.status import RecordError

if TYPE_CHECKING:
    from rda.training.text_model import TextModel

RUN_HELP = "a name, or a folder; without it: the model that comes with rda"


def find_run(name: str, runs: Path) -> Record:
    """The run of this name in a folder of runs, or the folder itself.

    Raises:
        RecordError: there is none, with the nearest name as a hint.
    """
    from rda.wording import printable

    for folder in (runs / name, Path(name)):
        if (folder / SETTINGS).is_file():
            return Record(folder)
    there = [printable(folder.name) for folder in run_folders(runs)]
    if not there:
        raise RecordError(f"no run {name!r}, and no runs in {runs}")
    raise RecordError(unknown_name("run", name, there))


def folder_of_runs(folder: Path) -> Path:
    """The folder, if there is one."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: --runs-dir names one with runs")
    return folder


def load_text_model(name: str | None, runs: Path, device: str) -> "tuple[Record, TextModel]":
    """The run that a command was given, and its model; one line where it has none of text.

    Without a name it is the model that comes with the package.
    """
    from rda.training.loading import load
    from rda.training.resources import find_device
    from rda.training.text_model import TextModel

    with as_usage_errors():
        folder = rda.PRETRAINED if name is None else find_run(name, runs).folder
        model = load(folder, device=find_device(device))
        record = Record(folder)
        if isinstance(model, TextModel):
            return record, model
        task = record.settings.task
        raise RecordError(
            f"run {record.name} was trained before vocabularies were saved: --force trains it again"
            if task.carries_state
            else f"run {record.name} was trained on {task.name}, and not on text: "
            "give a run of rda train text or rda train wikipedia"
        )


def tell_whose_model(command: str, name: str | None, record: Record) -> None:
    """Say so where a command was given no run and all else is right: an error is one line."""
    if name is not None:
        return
    print(
        f"rda: this is the model that comes with rda, {record.settings.unit} trained on "
        f"{trained_on(record)}; rda {command} RUN takes one of yours",
        file=sys.stderr,
    )


def trained_on(record: Record) -> str:
    """The text of a run in words: its file, or the title of its task."""
    return getattr(record.settings.task, "file", "") or record.settings.task.title
