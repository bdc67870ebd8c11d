"""What can be set about how, where and how often runs are computed; needs neither torch nor Ray."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from rda.settings import check_at_least

LOCAL, ON_A_NODE = "local", "auto"
CLIENT_PORT = 10001
"""Where the head of a Ray cluster listens for programs on other machines."""
HOST_AND_PORT = re.compile(r"ray://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?/?")


def default_runs() -> Path:
    """The folder of runs: $RDA_RUNS, otherwise `runs` in the current folder."""
    return Path(os.environ.get("RDA_RUNS") or "runs").expanduser()


@dataclass(frozen=True)
class Machine:
    """Where a run is computed."""

    device: str = "auto"
    """Device: cpu, cuda, cuda:1, ...; auto takes the GPU where there is one."""
    engine: str = "auto"
    """Engine that runs the unit; `rda doctor` lists them. For LSTM and GRU: a GPU engine, or torch
    for torch's own implementation."""
    threads: int = 0
    """Number of CPU threads; 0 leaves it to torch."""
    accumulate: int = 1
    """Pieces in which the rows of a batch are computed one after the other, to save memory."""

    def __post_init__(self) -> None:
        check_at_least("threads", self.threads, 0)
        check_at_least("accumulate", self.accumulate, 1)


@dataclass(frozen=True)
class Place:
    """Where a run is recorded, and where its data comes from."""

    name: str = ""
    """Name of the run or of the comparison; by default made of task, unit and seed."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""
    data_dir: str = ""
    """Folder with MNIST or enwik8, as .gz, .zip or plain files ($RDA_DATA); what is missing is
    downloaded."""
    checkpoint_minutes: float = 1.0
    """Minutes between checkpoints; 0 saves one after every step."""
    force: bool = False
    """Start over, even where the run is finished."""
    tensorboard: bool = False
    """Also write event files for TensorBoard into the run's folder."""

    def __post_init__(self) -> None:
        check_at_least("checkpoint_minutes", self.checkpoint_minutes, 0)


@dataclass(frozen=True)
class Seeds:
    """How often a run is repeated."""

    seeds: int = 1
    """Runs of each unit, with this seed and those that follow it."""

    def __post_init__(self) -> None:
        check_at_least("seeds", self.seeds, 1)


@dataclass(frozen=True)
class Cluster:
    """Where many runs are trained."""

    on: str = ""
    """Train all runs with Ray: ray starts one on this machine, ray://HOST:PORT uses a cluster,
    ray://auto the cluster that this machine is a node of."""
    store: str = ""
    """With --on, a place for the records that all nodes can reach: s3://..., gs://..., file://...;
    they are brought here at the end. Without it the folder of runs is one that all nodes share."""
    gpus: float = 0.0
    """With --on, the part of a GPU that a run takes, such as 0.25; 0 measures it."""

    def __post_init__(self) -> None:
        check_at_least("gpus", self.gpus, 0)
        if self.on:
            ray_address(self.on)
        elif self.store or self.gpus:
            raise ValueError(f"{'store' if self.store else 'gpus'} goes with --on ray")
        if self.store and "://" not in self.store:
            raise ValueError(f"store should be a URL such as s3://bucket/runs, got {self.store!r}")


def ray_address(on: str) -> str:
    """The address for Ray: "local", "auto" or "ray://HOST:PORT"."""
    if on == "ray":
        return LOCAL
    if on == "ray://auto":
        return ON_A_NODE
    found = HOST_AND_PORT.fullmatch(on)
    if found is None or not 0 < int(found[2] or CLIENT_PORT) < 65536:
        raise ValueError(f"on should be ray, ray://auto or ray://HOST:PORT, got {on!r}")
    return f"ray://{found[1]}:{found[2] or CLIENT_PORT}"
