"""What the commands share that train many runs: seeds, and a cluster to train them on."""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rda.commands.parser import UsageError, given_values, make
from rda.commands.training import as_usage_errors, folder_for
from rda.options import Cluster, Machine, Place, Seeds
from rda.training.record import SETTINGS, Record
from rda.training.settings import RunSettings
from rda.training.torchrun import is_team

if TYPE_CHECKING:
    from rda.scale.training import HowToTrain


@dataclass
class Trained:
    """Runs that were trained, and whether all of them came to their end."""

    records: list[Record] = field(default_factory=list)
    failed: bool = False
    stopped: str = ""
    """Why not all of them were trained to their end: a signal or "budget"."""


def seeds_and_cluster(asked: argparse.Namespace) -> tuple[int, Cluster]:
    """How often each run is repeated, and where all of them are trained."""
    seeds: Seeds = make(Seeds, given_values(asked, Seeds))
    cluster: Cluster = make(Cluster, given_values(asked, Cluster))
    if is_team() and (seeds.seeds > 1 or cluster.on):
        raise UsageError("torchrun trains one run: --seeds and --on do not go with it")
    return seeds.seeds, cluster


def seeded(runs: Sequence[RunSettings], seeds: int) -> list[RunSettings]:
    """Each run with its seed and those that follow it."""
    return [
        replace(run, recipe=replace(run.recipe, seed=run.recipe.seed + i))
        for run in runs
        for i in range(seeds)
    ]


def called(run: RunSettings, seeds: int) -> str:
    """What a run is called beside the others."""
    return run.unit if seeds == 1 else f"{run.unit}, seed {run.recipe.seed}"


def how_to_train(machine: Machine, place: Place, command: str) -> "HowToTrain":
    """The options of a command line for many runs."""
    from rda.scale.training import HowToTrain

    return HowToTrain(
        device=machine.device,
        engine=machine.engine,
        threads=machine.threads,
        accumulate=machine.accumulate,
        data_dir=place.data_dir,
        checkpoint_minutes=place.checkpoint_minutes,
        tensorboard=place.tensorboard,
        command=command,
        force=place.force,
    )


@contextmanager
def connection(cluster: Cluster) -> Iterator[None]:
    """One connection for all that is trained inside; nothing where that is done here."""
    if not cluster.on:
        yield
        return
    from rda.options import ray_address
    from rda.scale.connecting import ClusterError, connected

    try:
        with connected(ray_address(cluster.on)):
            yield
    except ClusterError as error:
        raise UsageError(str(error)) from error


def train_on(
    runs: Mapping[str, RunSettings],
    cluster: Cluster,
    machine: Machine,
    place: Place,
    command: str,
    minutes: float = 0.0,
    ended: Callable[[Path], None] = lambda folder: None,
) -> Trained:
    """All runs at once, as far as the cluster has room; those that are finished are left alone.

    After so many `minutes` everything is saved and stopped; `ended` is called with the folder of
    each run that came to its end.
    """
    from rich.console import Console

    from rda.scale.board import Board
    from rda.scale.training import fleet, follow

    folders = [folder_for(place, name) for name in runs]
    stopped, failed = None, 0
    how = how_to_train(machine, place, command)
    deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
    console = Console()
    with as_usage_errors(), connection(cluster):
        with fleet(runs, place.runs_dir, cluster, how) as sent, Board(console) as board:
            for note in sent.notes:
                board.say(note)
            stopped = follow(sent, board, deadline, ended)
        board.say(board.summary(sent.runs))
        failed = board.failed
    if stopped:
        why = "The budget is spent" if stopped == "budget" else "Interrupted"
        console.print(f"{why}; everything is saved, the same command goes on from here.")
    return Trained(_records(folders), bool(failed), stopped or "")


def _records(folders: Sequence[Path]) -> list[Record]:
    with as_usage_errors():
        return [Record(folder) for folder in folders if (folder / SETTINGS).exists()]
