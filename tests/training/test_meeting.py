"""Processes of a team find those that are there now, and never those before them."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore
from torch.distributed.distributed_c10d import PrefixStore

from rda.training import meeting
from rda.training.meeting import NobodyThereError, meet

SECONDS = 600.0
"""Against hangs only."""


def meet_all(store, ranks, size):
    """The part of the store that each rank finds, all of them at once."""
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: meet(store, rank, size, SECONDS), ranks))


def are_together(parts):
    for number, part in enumerate(parts):
        part.set(f"said by {number}", str(number))
    keys = [f"said by {number}" for number in range(len(parts))]
    return all(part.check(keys) for part in parts)


@pytest.mark.parametrize("ranks", [(0, 1, 2), (2, 1, 0)])
def test_all_find_the_same_part_of_the_store(ranks):
    assert are_together(meet_all(HashStore(), ranks, 3))


def test_those_who_are_started_again_do_not_find_those_before():
    store = HashStore()
    before = meet_all(store, (0, 1), 2)
    before[0].set("address", "of a process that is gone")
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(meet, store, 1, 2, SECONDS)  # while the old question still stands
        time.sleep(4 * meeting.SECONDS_BETWEEN)
        assert not early.done()
        after = [meet(store, 0, 2, SECONDS), early.result()]
    assert are_together(after)
    assert not after[1].check(["address"])


def test_an_answer_of_a_process_that_has_died_is_soon_forgotten(monkeypatch):
    monkeypatch.setattr(meeting, "SECONDS_A_QUESTION", 0.3)
    store = HashStore()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(meet, store, 0, 3, SECONDS)
        store.wait(["question"])
        question = store.get("question")
        PrefixStore(question.decode(), store).set("here 1", "a process that has died")
        while store.get("question") == question:
            time.sleep(meeting.SECONDS_BETWEEN)
        parts = [first, *(pool.submit(meet, store, rank, 3, SECONDS) for rank in (1, 2))]
        assert are_together([part.result() for part in parts])


@pytest.mark.parametrize("rank", [0, 1])
def test_who_waits_in_vain_says_so(rank):
    with pytest.raises(NobodyThereError, match=f"process {rank} of 2 waited 0.1 seconds"):
        meet(HashStore(), rank, 2, 0.1)
