"""How much of a GPU a run takes, measured on a node of the cluster."""

import math
import os
import tomllib

from rda.experiments.sharing import UNITS_THAT_FILL_A_GPU, WORKERS
from rda.experiments.speed import measure
from rda.scale.assignment import Assignment
from rda.training.resources import find_device
from rda.training.running import read_files
from rda.training.settings_file import from_table

CONTEXT_BYTES = 700_000_000
"""What CUDA and torch take for themselves beside the tensors."""
MARGIN = 1.2
"""Evaluation may take more than a step of training."""


def gpu_share(assignment: Assignment) -> float:
    """The part of this node's GPU that a run takes, found by training a few steps.

    Without NVIDIA's multi-process service kernels of several processes do not run side by side:
    then a run has the GPU for itself.
    """
    import torch

    os.environ.update(assignment.environment)
    settings = from_table(tomllib.loads(assignment.settings))
    served = "CUDA_MPS_PIPE_DIRECTORY" in os.environ
    if not served or settings.recipe.hidden_size >= UNITS_THAT_FILL_A_GPU:
        return 1.0
    device = find_device("cuda")
    files = read_files(settings, assignment.data_dir or None, progress=False)
    measure(settings, device, files)
    taken = MARGIN * torch.cuda.max_memory_reserved(device) + CONTEXT_BYTES
    return share_of(taken, torch.cuda.get_device_properties(device).total_memory)


def share_of(taken: float, total: float) -> float:
    """As Ray counts: in hundredths, and never less than where more runs at once gain nothing."""
    return min(1.0, max(1 / WORKERS, math.ceil(100 * taken / total) / 100))
