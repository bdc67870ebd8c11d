"""Many runs as tasks of Ray: submitted, watched through their records, stopped and saved."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from rda.scale.assignment import Assignment, Outcome
from rda.scale.connecting import ClusterError
from rda.training.interrupt import Interrupt
from rda.training.locking import locked
from rda.training.record import STATUS
from rda.training.status import RUNNING, RecordError, Status, status_from

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_SAVE = 60.0
"""A run that was asked to save and stop, and has not after this time, is left to Ray to kill."""
EVERY_FAILURE = -1


@dataclass
class Followed:
    """A run on the cluster, as it is seen from here."""

    assignment: Assignment
    task: Any
    """Ray's reference to its task."""
    status: Status | None = None
    """As its record last said."""
    news_at: float = 0.0
    """When its record last changed, by the clock of this process; 0 before it began."""
    outcome: Outcome | None = None
    """What became of it; None while it is trained."""

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.assignment.name


class Watcher(Protocol):
    """Whoever watches many runs."""

    def looked(self, runs: Sequence[Followed]) -> None:
        """Called about once a second with all of them."""

    def ended(self, run: Followed) -> None:
        """Called when a run is not trained any more, whatever the reason."""


class Fleet:
    """Runs that Ray places on nodes, and starts again where a node is lost."""

    def __init__(
        self, ray: ModuleType, assignments: Sequence[Assignment], gpus: float = 0.0
    ) -> None:
        self._ray = ray
        self._gpus = gpus
        self._shares: dict[str, float] = {}
        self.notes = self._missing_resources(assignments)
        # A status that is there before says nothing about now.
        before = [read_status(one) for one in assignments]
        self.runs = [
            Followed(one, self._submit(one), status)
            for one, status in zip(assignments, before, strict=True)
        ]

    def work(
        self,
        watcher: Watcher,
        deadline: float = float("inf"),
        brought: Callable[[Followed], None] = lambda run: None,
    ) -> str | None:
        """Wait until nothing is left; otherwise return why it stopped: a signal or "budget".

        `brought` is called with each run that has ended before the watcher is.
        """
        with Interrupt() as interrupt:
            while self._waiting():
                self._collect(watcher, brought, SECONDS_BETWEEN_LOOKS)
                if interrupt.requested or time.monotonic() >= deadline:
                    self._stop(watcher, brought)
                    return interrupt.requested or "budget"
                self._look()
                watcher.looked(self.runs)
        return None

    def _submit(self, assignment: Assignment) -> Any:
        from rda.scale.working import NodeStopsError, work

        share = self._share(assignment) if assignment.device == "cuda" else 0.0
        task = self._ray.remote(work).options(
            name=assignment.name,
            num_cpus=assignment.threads,
            num_gpus=share,
            max_retries=EVERY_FAILURE,
            retry_exceptions=[NodeStopsError],
            scheduling_strategy="SPREAD",
        )
        return task.remote(replace(assignment, shares_gpu=0 < share < 1))

    def _share(self, assignment: Assignment) -> float:
        """The part of a GPU; runs that differ in their seed alone take the same."""
        if self._gpus:
            return self._gpus
        kind = "\n".join(
            line for line in assignment.settings.splitlines() if not line.startswith("seed = ")
        )
        if kind not in self._shares:
            from rda.scale.sharing import gpu_share

            task = self._ray.remote(gpu_share).options(num_gpus=1, num_cpus=assignment.threads)
            try:
                self._shares[kind] = self._ray.get(task.remote(assignment))
            except Exception as error:
                raise ClusterError(f"cannot measure {assignment.name}: {_reason(error)}") from error
        return self._shares[kind]

    def _missing_resources(self, assignments: Sequence[Assignment]) -> list[str]:
        """Ray waits for nodes that may come; whoever waits should know."""
        largest = max((one.threads for one in assignments), default=0)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if any(node.get("CPU", 0) >= largest for node in nodes):
            return []
        return [f"no node has {largest} free CPUs now: the runs wait for one that has"]

    def _waiting(self) -> list[Followed]:
        return [run for run in self.runs if run.outcome is None]

    def _collect(
        self, watcher: Watcher, brought: Callable[[Followed], None], seconds: float
    ) -> None:
        waiting = {run.task: run for run in self._waiting()}
        try:
            done, _ = self._ray.wait(list(waiting), num_returns=len(waiting), timeout=seconds)
        except Exception as error:
            raise _lost(f"the cluster does not answer any more ({_reason(error)})") from error
        for task in done:
            run = waiting[task]
            run.outcome = self._outcome(run)
            try:
                brought(run)
            except (RecordError, OSError) as error:
                run.outcome = replace(run.outcome, error=str(error))
            run.status = read_status(run.assignment)
            watcher.ended(run)

    def _outcome(self, run: Followed) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(run.task)
        except self._ray.exceptions.TaskCancelledError:
            return Outcome(run.name, "")
        except self._ray.exceptions.LocalRayletDiedError as error:
            raise _lost("the node of Ray on this machine has died") from error
        except Exception as error:
            return Outcome(run.name, "", error=_reason(error))
        return outcome

    def _look(self) -> None:
        for run in self._waiting():
            status = read_status(run.assignment)
            if status is not None and status != run.status and status.state == RUNNING:
                run.news_at = time.monotonic()
            run.status = status

    def _stop(self, watcher: Watcher, brought: Callable[[Followed], None]) -> None:
        """Everything that is begun is saved, so that the same command goes on from there."""
        for run in self._waiting():
            self._ray.cancel(run.task, force=False)
        give_up = time.monotonic() + SECONDS_TO_SAVE
        while self._waiting() and time.monotonic() < give_up:
            self._collect(watcher, brought, SECONDS_BETWEEN_LOOKS)
            watcher.looked(self.runs)


def read_status(assignment: Assignment) -> Status | None:
    """The status as last written. Whether its process lives is for Ray to know."""
    if assignment.store:
        from rda.scale.storing import RunStore

        return RunStore(assignment.store, assignment.name).status()
    path = Path(assignment.runs_dir, assignment.name, STATUS)
    try:
        return status_from(json.loads(path.read_text()), path)
    except (OSError, ValueError):
        return None


def bring_home(run: Followed) -> None:
    """Copy a run from the store into the folder of runs of this machine."""
    from rda.scale.storing import RunStore

    store = RunStore(run.assignment.store, run.name)
    if not store.exists():
        return
    folder = Path(run.assignment.runs_dir, run.name)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        store.download(folder)


def _lost(what: str) -> ClusterError:
    return ClusterError(
        f"{what}: every run is saved up to its last checkpoint, and the same command goes on from "
        "there when Ray is back"
    )


def _reason(error: Exception) -> str:
    """The last line of Ray's account of what happened elsewhere, which is the error itself."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    said = lines[-1] if lines else type(error).__name__
    if "No module named 'rda" in str(error):
        return "rda is not installed on a node of the cluster: pip install 'rda-torch[ray]' there"
    return said
