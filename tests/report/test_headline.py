"""The sentence people quote: it must follow from the records and claim no more."""

import pytest

from rda.report.comparison import build_comparison


@pytest.fixture
def say(write_run):
    def say(*runs, task="multicopy"):
        records = [write_run(f"{i}", task, **run) for i, run in enumerate(runs)]
        return build_comparison(records).headline

    return say


QUICK = {"unit": "RDA-exp-tanh", "step": 310, "goal_step": 310}
SLOW = {"unit": "LSTM", "step": 900, "goal_step": 900}
NEVER = {"unit": "RWA", "step": 1500, "state": "stopped"}


def test_the_first_is_named_with_those_that_followed_and_those_that_did_not(say):
    assert say(NEVER, SLOW, QUICK) == (
        "RDA-exp-tanh reached accuracy > 0.99 first, at step 310, then LSTM at 900; "
        "RWA did not within 1,500 steps."
    )


def test_one_run_is_not_the_first_of_anything(say):
    assert say(QUICK) == "RDA-exp-tanh reached accuracy > 0.99 at step 310."


def test_a_tie_has_no_single_winner(say):
    told = say(QUICK, {**QUICK, "unit": "GRU"})
    assert told == "RDA-exp-tanh and GRU reached accuracy > 0.99 at step 310."


def test_who_may_be_overtaken_is_only_first_so_far(say):
    told = say(QUICK, {"unit": "GRU", "step": 200, "state": "failed"})
    assert "the first so far, at step 310" in told
    assert "GRU was cut short (failed) at step 200." in told


def test_nobody_is_praised_where_nobody_arrived(say):
    assert say(NEVER) == "RWA did not reach accuracy > 0.99 within 1,500 steps."


def test_without_a_goal_the_best_test_metric_is_named(say):
    told = say(
        {"unit": "LSTM", "test": {"test_accuracy": 0.97}},
        {"unit": "RWA", "test": {"test_accuracy": 0.98}},
        {"unit": "GRU", "state": "interrupted", "step": 5},
        task="mnist",
    )
    assert told == (
        "RWA has the best test accuracy, 0.98; LSTM has 0.97. "
        "GRU was cut short (interrupted) at step 5."
    )


def test_unlike_settings_are_admitted_but_seeds_are_not_unlike(say):
    assert "same settings" in say(QUICK, {**SLOW, "recipe": {"hidden_size": 64}})


def test_seeds_are_alike(say):
    assert "same settings" not in say(QUICK, {**SLOW, "recipe": {"seed": 4}})


def seeds(run, *goals):
    return [
        {**run, "recipe": {"seed": seed}, "goal_step": goal, "step": goal or 1500,
         "state": "finished" if goal else "stopped"}
        for seed, goal in enumerate(goals)
    ]  # fmt: skip


def test_several_seeds_are_told_as_a_median_that_a_run_has_and_a_range(say):
    runs = seeds(QUICK, 310, 400, 350, 330) + seeds(SLOW, 900, None, None) + seeds(NEVER, None)
    assert say(*runs) == (
        "Steps to accuracy > 0.99, median of the seeds and their range: "
        "RDA-exp-tanh 350 (310 to 400, 4 seeds); "
        "LSTM not reached (900 to not reached, 3 seeds); RWA not reached (one seed)."
    )


def test_seeds_without_a_goal_are_told_by_their_test(say):
    told = say(
        *({"unit": "LSTM", "test": {"test_accuracy": 0.97}, "recipe": {"seed": s}} for s in (0, 1)),
        {"unit": "RWA", "test": {"test_accuracy": 0.98}},
        task="mnist",
    )
    assert told == (
        "Test accuracy, median of the seeds and their range: RWA 0.98 (one seed); "
        "LSTM 0.97 (all 2 seeds)."
    )
