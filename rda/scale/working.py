"""What a node does: one run, from where its record stands to its end."""

import os
import socket
import time
import tomllib
from pathlib import Path

from rda.scale.assignment import Assignment, Outcome, code_version
from rda.training.listening import Quiet
from rda.training.record import SETTINGS, Record
from rda.training.running import read_files, train
from rda.training.settings import RunSettings
from rda.training.settings_file import from_table
from rda.training.status import INTERRUPTED, RecordError, RunInUseError

SECONDS_UNTIL_FREE = 120.0
"""A node that was lost may hold the lock of its runs for some time after."""
SECONDS_BETWEEN_TRIES = 1.0
STARTS_WITHOUT_A_CHECKPOINT = 20
"""After so many starts at the same step the run itself, and not its nodes, must be what fails."""


class NodeStopsError(RuntimeError):
    """The node was told to stop, and the run is saved; Ray starts it again elsewhere."""


class _Notes(Quiet):
    """Keeps lines for the user; progress is read from the record."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def work(assignment: Assignment) -> Outcome:
    """Train a run; whatever is wrong with it comes back as a line, so that Ray starts it again
    only where a process or a node has died."""
    node, notes = socket.gethostname(), _Notes()
    try:
        _refuse_other_code(assignment, node)
        os.environ.update(assignment.environment)
        if assignment.where and Path(assignment.where).is_dir():
            os.chdir(assignment.where)
        settings = from_table(tomllib.loads(assignment.settings))
        if assignment.store:
            from rda.scale.storing import in_store

            with in_store(assignment.store, assignment.name) as folder:
                record = _trained(assignment, settings, folder, notes)
        else:
            folder = Path(assignment.runs_dir, assignment.name)
            record = _trained(assignment, settings, folder, notes)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        return Outcome(assignment.name, node, tuple(notes.lines), reason)
    status = record.status
    if status.state == INTERRUPTED and status.reason.startswith("SIGTERM"):
        raise NodeStopsError(f"{node} was told to stop")
    return Outcome(assignment.name, node, tuple(notes.lines))


def _refuse_other_code(assignment: Assignment, node: str) -> None:
    if assignment.code and assignment.code != code_version():
        raise RecordError(
            f"node {node} has rda {code_version()}, and this command is rda {assignment.code}: "
            "install the same version on all nodes"
        )


def _trained(assignment: Assignment, settings: RunSettings, folder: Path, notes: _Notes) -> Record:
    _refuse_endless_starts(folder)
    if assignment.shares_gpu:
        from rda.scan.cuda.onchip import SHARED

        os.environ[SHARED] = "1"
    give_up = time.monotonic() + SECONDS_UNTIL_FREE
    while True:
        try:
            return train(
                settings,
                folder,
                device=assignment.device,
                engine=assignment.engine,
                threads=assignment.threads,
                accumulate=assignment.accumulate,
                files=read_files(settings, assignment.data_dir or None, progress=False),
                checkpoint_minutes=assignment.checkpoint_minutes,
                tensorboard=assignment.tensorboard,
                listener=notes,
                command=assignment.command,
            )
        except RunInUseError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(SECONDS_BETWEEN_TRIES)


def _refuse_endless_starts(folder: Path) -> None:
    if not (folder / SETTINGS).exists():
        return
    last = Record(folder).environment[-STARTS_WITHOUT_A_CHECKPOINT:]
    steps = {start.get("from_step") for start in last}
    if len(last) == STARTS_WITHOUT_A_CHECKPOINT and len(steps) == 1:
        raise RecordError(
            f"it was started {len(last)} times at step {steps.pop()} and came no further; save "
            "more often with --checkpoint-minutes, or train it here to see why"
        )
