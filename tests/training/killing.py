"""Trains a tiny run again and again in children that are killed, until one lives to the end.

python killing.py FOLDER RUN STEPS random|every|away

Children are forked from this process, which has all of torch loaded and starts no threads, so
that a child costs a fraction of a second. `random` kills 8 of them at a random moment, which is
counted in Python calls, so that it does not depend on the speed of the machine; FOLDER/random has
the run. `every` kills in each write to the disk: FOLDER/N has the run whose first child was killed
in its N-th write. `away` does the same, and where a checkpoint counts it is on a disk that is away
at the next start: that must change nothing. Prints how many children were killed, and for `away`
how many starts were refused.
"""

import functools
import itertools
import os
import random
import signal
import sys
from pathlib import Path

import torch
from tiny_runs import TINY_RUNS, run_once, with_steps

from rda import files
from rda.tasks import all_tasks
from rda.training.checkpoint import load_latest
from rda.training.record import CHECKPOINTS
from rda.training.status import FINISHED, RecordError


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


KILLS = 8
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


def start_child(folder, settings, prepare):
    child = os.fork()
    if child == 0:
        prepare()
        run_once(folder, settings, checkpoint_seconds=0.0)
        os._exit(0)
    return child


def lives(child):
    """Whether the child comes to its end."""
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
    return os.WIFEXITED(status)


def kill_at_random(folder, settings):
    rng = random.Random(0)
    for _ in range(KILLS):
        reading, writing = os.pipe()
        announce = functools.partial(announce_call, rng.randrange(1, LATEST_CALL), writing)
        child = start_child(folder / "random", settings, announce)
        os.close(writing)  # so that a child that fails ends the wait
        assert os.read(reading, 1)
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        assert not lives(child)
    assert lives(start_child(folder / "random", settings, lambda: None))
    return KILLS


def kill_in_every_write(folder, settings):
    for number in itertools.count(1):
        run = folder / str(number)
        if lives(start_child(run, settings, functools.partial(die_in_write, number))):
            return number - 1
        assert lives(start_child(run, settings, lambda: None))
    return None


def kill_and_take_away(folder, settings):
    refused = 0
    for number in itertools.count(1):
        run = folder / str(number)
        if lives(start_child(run, settings, functools.partial(die_in_write, number))):
            return f"{number - 1} {refused}"
        if load_latest(run / CHECKPOINTS, remove_bad=False)[0] is not None:
            (run / CHECKPOINTS).rename(folder / "other-disk")
            refused += is_refused(run, settings)
            (folder / "other-disk").rename(run / CHECKPOINTS)
        assert lives(start_child(run, settings, lambda: None))
    return None


def is_refused(run, settings):
    """Whether the run is refused, or otherwise finished; its record stays as it was."""
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    try:
        assert run_once(run, settings).state == FINISHED
        refused = False
    except RecordError:
        refused = True
    for path in run.iterdir():
        assert path.read_bytes() == before[path.name], f"{path} was changed"
    return refused


def load_everything():
    """What a first step would load: tasks, and with an optimiser half of torch."""
    all_tasks()
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.zeros(1)
    torch.optim.Adam([weight], fused=True).step()


def main():
    torch.set_num_threads(1)
    load_everything()
    folder, name, steps, moments = sys.argv[1:]
    settings = with_steps(TINY_RUNS[name], int(steps), stop_at="never")
    kill = {
        "random": kill_at_random, "every": kill_in_every_write, "away": kill_and_take_away,
    }[moments]  # fmt: skip
    print(kill(Path(folder), settings))


if __name__ == "__main__":
    main()
