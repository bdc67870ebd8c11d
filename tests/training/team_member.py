"""One process of a team: trains the tiny runs, one after the other.

python team_member.py FOLDER STEPS ACCUMULATE RUN ...
"""

import sys
from pathlib import Path

import torch
from tiny_runs import TINY_RUNS, files_for, with_steps

from rda.training.running import train

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, steps, accumulate, *names = sys.argv[1:]
    for name in names:
        settings = with_steps(TINY_RUNS[name], int(steps))
        record = train(
            settings,
            Path(folder, name),
            device="cpu",
            files=files_for(settings),
            checkpoint_minutes=0.0,
            accumulate=int(accumulate),
        )
        if not record.status.ended:
            sys.exit(f"{name}: {record.status.reason}")
