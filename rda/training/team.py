"""Several processes that train one run: each takes some rows of every batch.

One of them leads: it alone decides, records and saves. Before it does something that all take part
in, it says so, and the others do the same. So there is one training loop, and no process can wait
for something that the others do not do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous

from rda.training import checkpoint
from rda.training.meeting import meet
from rda.training.status import FAILED, STATES
from rda.training.torchrun import is_team

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

LIMIT = "RDA_TEAM_TIMEOUT"
SECONDS = 120.0
"""How long a process waits for the others before it gives up; the variable says otherwise."""
SECONDS_BETWEEN_LOOKS = 0.0001
NCCL = "cpu:gloo,cuda:nccl"
LOST = ("onnection", "timed out", "Timed out", "imeout", "socket", "Socket", "NCCL", "gloo", "peer")
"""Words in what torch says when other processes are gone."""


class TeamError(ConnectionError):
    """Other processes are gone or do not answer; the message is one line."""


class Order(IntEnum):
    """What the leader says before all do it."""

    STEP = 0
    VALIDATE = 1
    TEST = 2
    GATHER = 3
    LOAD = 4
    RESTORE = 5
    END = 6


@dataclass(frozen=True)
class Team:
    """The processes of one run, as one of them sees them."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process decides and records."""
        return self.rank == 0

    def rows(self, batch: int) -> slice:
        """This member's rows of a batch."""
        return slice(batch * self.rank // self.size, batch * (self.rank + 1) // self.size)

    def tell(self, order: Order, step: int = 0) -> None:
        """Of the leader: say what all do next. Nobody hears a process alone."""
        if self.size > 1 and self.leads:
            with self.listening():
                dist.broadcast(torch.tensor([order, step]), 0)

    def hear(self) -> tuple[Order, int]:
        """Of the others: what the leader says."""
        said = torch.zeros(2, dtype=torch.int64)
        with self.listening():
            dist.broadcast(said, 0)
        return Order(int(said[0])), int(said[1])

    def total(self, values: Tensor) -> Tensor:
        """The sum over all members."""
        if self.size > 1:
            with self.listening():
                dist.all_reduce(values)
        return values

    def from_leader(self, tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """The leader's tensors, in all processes."""
        if self.size == 1:
            return dict(tensors or {})
        packed = [checkpoint.pack(tensors, {})] if tensors is not None else [b""]
        with self.listening():
            dist.broadcast_object_list(packed, 0)
        return dict(tensors) if tensors is not None else checkpoint.unpack(packed[0])[0]

    def gathered(self, parts: Sequence[Tensor], dim: int) -> list[Tensor]:
        """Each tensor whole, from the rows of all members; of use to the leader alone."""
        if self.size == 1:
            return list(parts)
        found: list[Any] = [None] * self.size
        with self.listening():
            dist.all_gather_object(found, [part.cpu() for part in parts])
        whole = [torch.cat(some, dim) for some in zip(*found, strict=True)]
        return [one.to(part.device) for one, part in zip(whole, parts, strict=True)]

    def together(self, model: nn.Module) -> nn.Module:
        """The model, whose gradients become the mean over all members while they are computed."""
        if self.size == 1:
            return model
        device = next(model.parameters()).device
        with self.listening(), _beside_the_default_stream(device):
            return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    @property
    def can_record(self) -> bool:
        """Whether a step can be recorded as a CUDA graph: NCCL's messages are work of the GPU like
        any other, Gloo's are not."""
        return self.size == 1 or _backend() == NCCL

    def wait_for(self, device: torch.device) -> None:
        """Wait until the device is done, but no longer than for another process.

        torch's own watchdog does not see the messages of a recorded step, which wait forever for a
        process that is gone.
        """
        if self.size == 1 or device.type != "cuda":
            return
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(device))
        give_up = time.monotonic() + _seconds()
        while not done.query():
            if time.monotonic() > give_up:
                raise self._lost()
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def without_reducing(self, model: nn.Module) -> AbstractContextManager[Any]:
        """A context in which gradients are added up in this process alone."""
        return model.no_sync() if self.size > 1 else nullcontext()  # type: ignore[operator]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Where the others are gone, say so in one line."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(word in str(error) for word in LOST):
                raise
            raise self._lost() from error

    def _lost(self) -> TeamError:
        return TeamError(
            f"process {self.rank} of {self.size} has lost the others, or waited longer than "
            f"{_seconds():g} seconds for them ({LIMIT}): the last checkpoint is kept"
        )


ALONE = Team()


@cache
def team() -> Team:
    """The processes that torchrun has started; alone where it has not.

    They stay connected as long as this process lives. Ending a connection of torch's that objects
    still refer to can wait forever.
    """
    if not is_team():
        return ALONE
    limit = timedelta(seconds=_seconds())
    patience = timedelta(seconds=max(_seconds(), SECONDS))  # processes do not start at once
    if torch.cuda.is_available():
        torch.cuda.set_device(_gpu_of_member())
    try:
        store, rank, size = next(iter(rendezvous("env://", timeout=patience)))
        met = meet(store, rank, size, patience.total_seconds())
        dist.init_process_group(_backend(), timeout=limit, rank=rank, world_size=size, store=met)
    except (RuntimeError, ValueError) as error:
        raise TeamError(f"the processes did not find each other: {_first_line(error)}") from error
    return Team(dist.get_rank(), dist.get_world_size())


class Leadership:
    """What the leader says last: how training has ended."""

    def __init__(self) -> None:
        self.state = FAILED

    def ended(self, state: str) -> None:
        """Training has ended in this state."""
        self.state = state


@contextmanager
def leadership(members: Team) -> Iterator[Leadership]:
    """A context at whose end the others are told to end too, whatever happens in it."""
    found = Leadership()
    try:
        yield found
    finally:
        with suppress(TeamError):  # those who are gone need not be told
            members.tell(Order.END, STATES.index(found.state))


def device_of_member(name: str) -> str:
    """The device of this name; of several processes on one machine each takes a GPU of its own, as
    long as there are enough."""
    if name in ("auto", "cuda") and torch.cuda.is_available() and "LOCAL_RANK" in os.environ:
        return f"cuda:{_gpu_of_member()}"
    return name


def _gpu_of_member() -> int:
    return int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()


def _backend() -> str:
    """NCCL for what is on GPUs, unless processes share one, which NCCL refuses."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    return NCCL if here <= torch.cuda.device_count() else "gloo"


@contextmanager
def _beside_the_default_stream(device: torch.device) -> Iterator[None]:
    """A context in which a GPU works in a stream that can be part of a recording.

    DistributedDataParallel keeps what adds up gradients, in the stream in which it is made.
    """
    if device.type != "cuda":
        yield
        return
    default, beside = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    beside.wait_stream(default)
    with torch.cuda.stream(beside):
        yield
    default.wait_stream(beside)


def _seconds() -> float:
    try:
        found = float(os.environ.get(LIMIT, SECONDS))
    except ValueError:
        found = -1.0
    if not found > 0:
        raise TeamError(f"{LIMIT} should be a number of seconds, got {os.environ[LIMIT]!r}")
    return found


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
