"""How the processes of a team find each other, whatever those before them have left behind.

torchrun's store of keys and values outlives processes that are started again, and its machines may
count their starts differently: one that has joined later has started less often. So neither the
store nor a count tells which processes belong together. The first process asks who is there until
all have answered the same question, and names those that did.
"""

import time
import uuid

from torch.distributed.distributed_c10d import PrefixStore, Store

SECONDS_A_QUESTION = 10.0
"""How long the first process waits for answers before it asks again. An answer may be that of a
process which has died since; it is no older than this."""
SECONDS_BETWEEN = 0.05


class NobodyThereError(RuntimeError):
    """Others did not come in time."""


def meet(store: Store, rank: int, size: int, seconds: float) -> Store:
    """A part of the store that the processes which are here now have for themselves."""
    give_up = time.monotonic() + seconds
    found = _ask(store, size, give_up) if rank == 0 else _answer(store, rank, give_up)
    if found is None:
        raise NobodyThereError(
            f"process {rank} of {size} waited {seconds:g} seconds for the others"
        )
    return found


def _ask(store: Store, size: int, give_up: float) -> Store | None:
    answers = [f"here {rank}" for rank in range(1, size)]
    while time.monotonic() < give_up:
        question = uuid.uuid4().hex
        part = PrefixStore(question, store)
        store.set("question", question)
        ask_again = min(give_up, time.monotonic() + SECONDS_A_QUESTION)
        while time.monotonic() < ask_again:
            if part.check(answers):
                part.set("members", b" ".join(part.get(answer) for answer in answers).decode())
                return part
            time.sleep(SECONDS_BETWEEN)
    return None


def _answer(store: Store, rank: int, give_up: float) -> Store | None:
    own = uuid.uuid4().hex
    while time.monotonic() < give_up:
        if store.check(["question"]):
            part = PrefixStore(store.get("question").decode(), store)
            part.set(f"here {rank}", own)
            if part.check(["members"]) and own in part.get("members").decode().split():
                return part
        time.sleep(SECONDS_BETWEEN)
    return None
