"""One process of a team: trains the tiny runs, one after the other.

python team_member.py FOLDER STEPS ACCUMULATE RUN ...
"""

import os
import sys
from pathlib import Path

import torch
from tiny_runs import TINY_RUNS, files_for, with_steps

from rda.training.running import train
from rda.training.team import TeamError


def train_all(folder, steps, accumulate, names):
    """0, or 1 where a run did not come to its end."""
    for name in names:
        settings = with_steps(TINY_RUNS[name], steps)
        try:
            record = train(
                settings,
                Path(folder, name),
                device="cpu",
                files=files_for(settings),
                checkpoint_minutes=0.0,
                accumulate=accumulate,
            )
        except TeamError as error:
            print(f"{name}: {error}", flush=True)
            return 1
        if not record.status.ended:
            print(f"{name}: {record.status.reason}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, steps, accumulate, *names = sys.argv[1:]
    # Not sys.exit: torch's threads may not end cleanly, which is not what is tested.
    os._exit(train_all(folder, int(steps), int(accumulate), names))
