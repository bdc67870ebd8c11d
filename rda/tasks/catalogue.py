"""From a task's settings to the task."""

from collections.abc import Mapping
from typing import Any

import torch

from rda.tasks.addition import AdditionTask
from rda.tasks.classify_length import ClassifyLengthTask
from rda.tasks.copying import CopyTask, MultiCopyTask
from rda.tasks.mnist import MNISTTask
from rda.tasks.settings import TaskSettings
from rda.tasks.task import Task
from rda.tasks.wikipedia import WikipediaTask

_TASKS: dict[str, Any] = {
    "addition": AdditionTask,
    "classify-length": ClassifyLengthTask,
    "copy": CopyTask,
    "multicopy": MultiCopyTask,
    "mnist": MNISTTask,
    "mnist-permuted": MNISTTask,
    "wikipedia": WikipediaTask,
}


def build_task(
    settings: TaskSettings,
    device: torch.device | str = "cpu",
    files: Mapping[str, bytes] | None = None,
) -> Task:
    """The task, its batches made on `device`; `files` holds the data of one that has a dataset."""
    given = () if settings.dataset is None else (files,)
    task: Task = _TASKS[settings.name](settings, torch.device(device), *given)
    return task
