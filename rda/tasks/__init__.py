"""The paper's tasks and user-defined tasks. Tasks do not depend on the unit.

`Task` is the class to derive from, `register` makes a task known. docs/tasks.md shows a whole one.
"""

from rda.settings import Goal, Limits, Recipe
from rda.tasks.registry import TaskError, TaskWarning, all_tasks, description, find_task, register
from rda.tasks.task import Batch, Part, Preset, Source, Task, bits

__all__ = [
    "Batch",
    "Goal",
    "Limits",
    "Part",
    "Preset",
    "Recipe",
    "Source",
    "Task",
    "TaskError",
    "TaskWarning",
    "all_tasks",
    "bits",
    "description",
    "find_task",
    "register",
]
