"""One process of a team on GPUs: takes some steps of a tiny run and prints their losses.

python nccl_member.py RUN STEPS
"""

import json
import os
import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "training"))
from tiny_runs import TINY_RUNS, files_for

from rda.training.building import build_stepper
from rda.training.following import follow
from rda.training.status import FINISHED
from rda.training.team import leadership, team


def losses(name, steps):
    """The losses of some steps, and whether the last of them were replayed."""
    settings = TINY_RUNS[name]
    device = torch.device("cuda")
    stepper = build_stepper(settings, device, files=files_for(settings), team=team())
    found = []
    if not team().leads:
        follow(stepper)
        return found, stepper.replays
    with leadership(team()) as lead:
        for _ in range(steps):
            stepper.step()
            found.append(stepper.fetch()[0]["loss"])
        lead.ended(FINISHED)
    return found, stepper.replays


if __name__ == "__main__":
    print(json.dumps(losses(sys.argv[1], int(sys.argv[2]))), flush=True)
    os._exit(0)  # torch's threads may not end cleanly, which is not what is tested
