"""Goals are exact to the step."""

import pytest
import torch

from rda.settings import Goal
from rda.training.goals import GoalTracker

LOW = Goal("loss", "<", 0.001)


def tracked(goal, values):
    tracker = GoalTracker(goal)
    for step, value in enumerate(values, 1):
        tracker.update(step, {goal.column: value})
    return tracker


def test_the_first_batch_past_the_goal_counts_and_later_ones_do_not():
    tracker = tracked(LOW, [0.5, 0.001, 0.0009, 0.5, 0.0001])
    assert tracker.first == 3
    assert tracker.reached("goal") == 3
    assert tracker.reached("trailing") is None
    assert tracker.reached("never") is None


def test_the_trailing_mean_needs_a_hundred_batches():
    assert tracked(LOW, [0.0] * 99).trailing is None
    assert tracked(LOW, [0.0] * 100).trailing == 100


def test_the_trailing_mean_is_of_the_last_hundred_alone():
    # One value of 1 spoils the mean until it has left the window.
    tracker = tracked(LOW, [1.0] + [0.0] * 150)
    assert (tracker.first, tracker.trailing) == (2, 101)


@pytest.mark.parametrize(
    ("relation", "threshold", "value", "reached"),
    [
        ("<", 0.001, 0.001, False),
        ("<", 0.001, 0.00099, True),
        (">", 0.99, 0.99, False),
        (">", 0.99, 0.9901, True),
        (">", 0.99, torch.tensor(99 / 100).item(), False),
        (">", 0.999, torch.tensor(101_898 / 102_000).item(), False),
        (">=", 1.0, 1.0, True),
        (">=", 1.0, 0.99, False),
        ("<", 0.001, float("nan"), False),
        (">", 0.99, float("nan"), False),
    ],
)
def test_thresholds_are_as_the_paper_prints_them(relation, threshold, value, reached):
    assert Goal("accuracy", relation, threshold).reached(value) is reached


def test_a_task_without_a_goal_never_reaches_one():
    tracker = GoalTracker(None)
    tracker.update(1, {"loss": 0.0})
    assert tracker.reached("goal") is None
