"""Trains a tiny run again and again in children that are killed, until one lives to the end.

python killing.py FOLDER RUN STEPS random|N ...

Children are forked from this process, which has all of torch loaded and starts no threads, so
that a child costs a fraction of a second. `random` kills 12 of them at a random moment, which is
counted in Python calls, so that it does not depend on the speed of the machine. A number N kills
the first child in its N-th write to the disk. Each moment has its own folder. Prints how many were
killed.
"""

import itertools
import os
import random
import signal
import sys
from pathlib import Path

import torch
from tiny_runs import TINY_RUNS, run_once, with_steps

from rda import files


def die_in_write(number):
    """Make the calls that write deadly: the N-th kills this process, before or after its work."""
    count = iter(range(1, 10**9))

    def deadly(call):
        def wrapped(*arguments, **options):
            if next(count) != number:
                return call(*arguments, **options)
            if number % 2:
                call(*arguments, **options)
            return os.kill(os.getpid(), signal.SIGKILL)

        return wrapped

    for owner, name in ((files.os, "fsync"), (Path, "replace"), (Path, "unlink")):
        setattr(owner, name, deadly(getattr(owner, name)))


KILLS = 12
LATEST_CALL = 60_000
"""A run makes about 20,000 calls before its first step and 5,000 in each step."""
CALLS_BEYOND = 20_000


def announce_call(number, pipe):
    """Tell the parent at the N-th call, and go on until it kills this process.

    The kill hits while this process works. A slow parent cannot miss it: after some more calls
    this process waits.
    """
    count = itertools.count(1)

    def watch(*event):
        reached = next(count)
        if reached == number:
            os.write(pipe, b"!")
        elif reached == number + CALLS_BEYOND:
            signal.pause()

    sys.setprofile(watch)


def train_until_it_lives(folder, settings, moment):
    """How many children had to die."""
    rng = random.Random(0)
    kills = 0
    while True:
        is_random = moment == "random" and kills < KILLS
        call = rng.randrange(1, LATEST_CALL)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            if is_random:
                announce_call(call, writing)
            elif moment != "random" and kills == 0:
                die_in_write(int(moment))
            run_once(folder, settings, checkpoint_seconds=0.0)
            os._exit(0)
        os.close(writing)
        if is_random:
            os.read(reading, 1)
            os.kill(child, signal.SIGKILL)
        os.close(reading)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return kills
        kills += 1


def load_all_of_torch():
    """An optimiser's first step imports half of torch."""
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.zeros(1)
    torch.optim.Adam([weight], fused=True).step()


def main():
    torch.set_num_threads(1)
    load_all_of_torch()
    folder, name, steps, *moments = sys.argv[1:]
    settings = with_steps(TINY_RUNS[name], int(steps), stop_at="never")
    print(sum(train_until_it_lives(Path(folder) / m, settings, m) for m in moments))


if __name__ == "__main__":
    main()
