"""What travels to a node and back: plain values, and never an object of torch."""

import hashlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import rda


@dataclass(frozen=True)
class Assignment:
    """One run, for a node to train."""

    name: str
    settings: str
    """As `settings.toml` has them."""
    runs_dir: str
    """The folder of runs, which all nodes share; not used where there is a store."""
    where: str = ""
    """The working folder of the command, from which relative names of data files count."""
    store: str = ""
    """The URL under which records are kept, if there is no shared folder."""
    device: str = "cpu"
    engine: str = "auto"
    threads: int = 1
    accumulate: int = 1
    data_dir: str = ""
    checkpoint_minutes: float = 1.0
    tensorboard: bool = False
    command: str = ""
    code: str = ""
    """The version that the node must have too."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of ours, such as $RDA_TASKS, that the run may depend on."""
    shares_gpu: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a run on a node."""

    name: str
    node: str
    notes: tuple[str, ...] = ()
    """Lines for the user."""
    error: str = ""
    """Why the run could not be trained; empty where it could, whatever state it ended in."""


@cache
def code_version() -> str:
    """The version of this code, exact to the byte."""
    package = Path(rda.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{rda.__version__} ({digest.hexdigest()[:12]})"
