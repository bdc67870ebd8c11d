"""A run by its name or its folder, and the model of text that it trained."""

from pathlib import Path
from typing import TYPE_CHECKING

from rda.commands.parser import UsageError
from rda.commands.training import as_usage_errors
from rda.names import unknown_name
from rda.training.record import SETTINGS, Record, run_folders
from rda.training.status import RecordError

if TYPE_CHECKING:
    from rda.training.text_model import TextModel


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


def load_text_model(
    command: str, name: str | None, runs: Path, device: str
) -> "tuple[Record, TextModel]":
    """The run that a command was given, and its model; one line where it has none of text."""
    if not name:
        raise UsageError(f"rda {command} needs a run: rda runs lists them")
    from rda.training.loading import load
    from rda.training.resources import find_device
    from rda.training.text_model import TextModel

    with as_usage_errors():
        record = find_run(name, runs)
        model = load(record.folder, device=find_device(device))
        if isinstance(model, TextModel):
            return record, model
        task = record.settings.task
        raise RecordError(
            f"run {record.name} was trained before vocabularies were saved: --force trains it again"
            if task.carries_state
            else f"run {record.name} was trained on {task.name}, and not on text: "
            "give a run of rda train text or rda train wikipedia"
        )
