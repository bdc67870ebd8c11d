"""The rows of a batch over threads, once for a whole sequence.

One parallel region for every small operation costs more than it brings: a loop over time runs
nearly twice as fast when each thread takes a part of the batch through all of it, with every
operation on one core.
"""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch
from torch import Tensor

FEWEST_ROWS = 16
"""Rows a thread should have at least: below that Python's own lock is what they wait for."""


def for_rows(work: Callable[[slice], None], sequence: Tensor) -> None:
    """Call `work` for slices that together are every row of a (time, batch, ...) sequence."""
    batch = sequence.shape[1]
    threads = min(torch.get_num_threads(), batch // FEWEST_ROWS)
    if sequence.device.type != "cpu" or threads < 2:
        work(slice(0, batch))
        return
    inference = torch.is_inference_mode_enabled()

    def share(k: int) -> None:
        with torch.inference_mode(inference), torch.no_grad():
            work(slice(batch * k // threads, batch * (k + 1) // threads))

    for done in [_pool(os.getpid(), threads).submit(share, k) for k in range(threads)]:
        done.result()


@functools.lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that run each operation on one core. A forked process gets its own."""
    everyone = Barrier(threads)

    def settle() -> None:
        torch.set_num_threads(1)
        everyone.wait()

    usual = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="rda")
    for ready in [pool.submit(settle) for _ in range(threads)]:
        ready.result()
    # The setting is each thread's own, but what new threads start with is the last one set.
    torch.set_num_threads(usual)
    return pool
