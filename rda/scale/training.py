"""Training many runs on a cluster from Python: settings in, records here out."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rda.options import Cluster, ray_address
from rda.scale.assignment import Assignment, code_version
from rda.scale.connecting import ClusterError, connected
from rda.scale.fleet import Fleet, Followed, Watcher, bring_home
from rda.training.record import SETTINGS, Record
from rda.training.run import Run
from rda.training.settings import RunSettings
from rda.training.settings_file import to_toml
from rda.training.status import FINISHED, RecordError

VARIABLES = ("RDA_TASKS", "RDA_DATA", "RDA_COMMIT")
"""What a run may depend on, taken along to its node."""
_NO_SOURCE: Any = None
"""A run that is not trained here needs no data here."""


@dataclass(frozen=True)
class HowToTrain:
    """What is the same for all runs; the words are those of `rda.training.train`."""

    device: str = "auto"
    engine: str = "auto"
    threads: int = 0
    """CPUs of each run, and its threads; 0 is 1."""
    accumulate: int = 1
    data_dir: str = ""
    checkpoint_minutes: float = 1.0
    tensorboard: bool = False
    command: str = ""
    force: bool = False


@contextmanager
def fleet(
    runs: Mapping[str, RunSettings], runs_dir: Path, cluster: Cluster, how: HowToTrain
) -> Iterator[Fleet]:
    """Connect to Ray and submit every run that is not finished; they stop with the context."""
    wanted = {
        name: run for name, run in runs.items() if how.force or not _done(run, runs_dir / name)
    }
    with connected(ray_address(cluster.on)) as ray:
        device = _device(ray, how.device)
        for name, settings in wanted.items():
            _prepare(settings, runs_dir / name, cluster.store, how.force)
        yield Fleet(
            ray,
            [
                _assignment(name, settings, runs_dir, cluster, how, device)
                for name, settings in wanted.items()
            ],
            cluster.gpus,
        )


def follow(
    sent: Fleet,
    watcher: Watcher,
    deadline: float = float("inf"),
    ended: Callable[[Path], None] = lambda folder: None,
) -> str | None:
    """Wait for the runs of a fleet and have their records here; why it stopped, if it did.

    `ended` is called with the folder of each run that came to its goal or to a limit.
    """

    def brought(run: Followed) -> None:
        if run.assignment.store:
            bring_home(run)
        folder = Path(run.assignment.runs_dir, run.name)
        if (folder / SETTINGS).exists() and Record(folder).status.ended:
            ended(folder)

    return sent.work(watcher, deadline, brought)


def _done(settings: RunSettings, folder: Path) -> bool:
    """Whether there is nothing left to train, so that no node needs to look."""
    try:
        record = Record(folder)
        finished = record.status.state == FINISHED and not record.damaged()
    except (RecordError, OSError):
        return False
    return finished and record.settings == settings


def _device(ray: ModuleType, asked: str) -> str:
    """Whether runs get a GPU: "auto" asks the cluster, and not this machine."""
    kind = asked.partition(":")[0]
    if kind not in ("auto", "cpu", "cuda"):
        raise ClusterError(f"device {asked!r} cannot be asked of a cluster: auto, cpu or cuda")
    has_gpus = ray.cluster_resources().get("GPU", 0) > 0
    if kind == "cuda" and not has_gpus:
        raise ClusterError("no node of the cluster has a GPU")
    return "cuda" if has_gpus and kind != "cpu" else "cpu"


def _prepare(settings: RunSettings, folder: Path, url: str, force: bool) -> None:
    """What must happen once, and not again on every node that a run comes to."""
    if force and (folder / SETTINGS).exists():
        with Run(folder, settings, _NO_SOURCE, force=True):
            pass  # it is empty now, and whoever trains it begins at step 0
    if not url:
        return
    from rda.scale.storing import RunStore

    store = RunStore(url, folder.name)
    if force:
        store.remove()
    elif (folder / SETTINGS).exists() and not store.exists():
        store.upload(folder)


def _assignment(
    name: str, settings: RunSettings, runs_dir: Path, cluster: Cluster, how: HowToTrain, device: str
) -> Assignment:
    own: dict[str, Any] = {key: os.environ[key] for key in VARIABLES if key in os.environ}
    return Assignment(
        name=name,
        settings=to_toml(settings),
        runs_dir=str(runs_dir.absolute()),
        where=str(Path.cwd()),
        store=cluster.store,
        device=device,
        engine=how.engine,
        threads=how.threads or 1,
        accumulate=how.accumulate,
        data_dir=str(Path(how.data_dir).absolute()) if how.data_dir else "",
        checkpoint_minutes=how.checkpoint_minutes,
        tensorboard=how.tensorboard,
        command=how.command,
        code=code_version(),
        environment=own,
    )
