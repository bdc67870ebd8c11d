"""The facts of a run: which are shown, in which order, and what is not claimed."""

import math

import pytest

from rda.report.summary import labels, ranking, summarise
from rda.training.locking import RunLock


def rows(count, **values):
    return [{"step": step, **values} for step in range(1, count + 1)]


@pytest.mark.parametrize(
    ("goal_step", "seconds"), [(75, 3.0), (50, 2.0), (25, 1.0), (100, 4.0), (110, 4.6), (120, 5.2)]
)
def test_the_time_to_the_goal_is_read_between_the_timings(write_run, goal_step, seconds):
    run = write_run(goal_step=goal_step, step=120, seconds=5.2, timing=[(50, 2.0), (100, 4.0)])
    assert summarise(run).seconds_to_goal == pytest.approx(seconds)


def test_a_time_that_nobody_measured_is_not_made_up(write_run):
    summary = summarise(write_run(goal_step=10, step=10))
    assert summary.seconds_to_goal is None
    assert summary.steps_per_second is None


def test_the_last_values_are_means_of_the_last_hundred_batches(write_run):
    run = write_run(rows=[*rows(50, loss=9.0, accuracy=0.0), *rows(100, loss=1.0, accuracy=0.5)])
    assert (summarise(run).loss, summarise(run).metric) == (1.0, 0.5)


def test_a_loss_that_broke_is_shown_as_broken(write_run):
    run = write_run(rows=[*rows(5, loss=1.0), {"step": 6, "loss": float("nan")}], state="failed")
    assert math.isnan(summarise(run).loss)


def test_a_run_that_differs_from_the_paper_says_in_what(write_run):
    run = write_run(recipe={"hidden_size": 64, "seed": 3}, small=True)
    summary = summarise(run)
    assert {"hidden_size 64", "copies 20", "seed 3"} <= set(summary.differences)
    assert summary.brief_differences == ("small", "seed 3")
    assert summarise(write_run("paper")).differences == ()


def test_a_run_cut_short_is_never_a_result(write_run):
    killed = summarise(write_run("killed", step=420, state="running"))
    assert killed.steps_to_goal == "> 420, killed"
    assert summarise(write_run("limit", step=1500, state="stopped")).steps_to_goal == "> 1,500"
    assert summarise(write_run("failed", step=9, state="failed")).steps_to_goal == "> 9, failed"


def test_a_run_that_lives_is_still_running(write_run):
    run = write_run(step=7, state="running")
    lock = RunLock(run.folder)
    assert summarise(run).steps_to_goal == "> 7, running"
    lock.release()
    assert summarise(run).steps_to_goal == "> 7, killed"


def test_the_quickest_comes_first_and_the_unfinished_last(write_run):
    summaries = [
        summarise(write_run("failed", step=5000, state="failed")),
        summarise(write_run("slow", step=900, goal_step=900)),
        summarise(write_run("never", step=1500, state="stopped")),
        summarise(write_run("quick", step=310, goal_step=310)),
    ]
    assert [run.name for run in ranking(summaries)] == ["quick", "slow", "never", "failed"]


@pytest.mark.parametrize(
    ("task", "metric", "order"),
    [("mnist", "accuracy", ["high", "low"]), ("wikipedia", "bits", ["low", "high"])],
)
def test_without_a_goal_the_better_test_metric_comes_first(write_run, task, metric, order):
    for name, value in (("low", 0.5), ("high", 0.9)):
        write_run(name, task, best={f"validation_{metric}": 1.0}, test={f"test_{metric}": value})
    runs = [write_run("cut", task, state="interrupted", test={f"test_{metric}": 0.7})]
    folder = runs[0].folder.parent
    summaries = [summarise(type(runs[0])(folder / name)) for name in ("cut", "low", "high")]
    assert [run.name for run in ranking(summaries)] == [*order, "cut"]
    assert summaries[1].validation == 1.0


def test_a_run_without_a_step_has_a_row(write_run):
    summary = summarise(write_run(state="running"))
    assert (summary.step, summary.loss, summary.metric) == (0, None, None)


def test_a_name_cannot_command_the_terminal(write_run):
    run = write_run("\x1b[2Jgone", reason="first\nsecond\x07", state="failed")
    summary = summarise(run)
    assert "\x1b" not in summary.name
    assert summary.reason.startswith("first second")
    assert summary.reason.isprintable()


def test_runs_of_one_unit_are_told_apart_by_seed_or_by_name(write_run):
    runs = [
        write_run("LSTM-1", unit="LSTM"),
        write_run("mine", unit="LSTM"),
        write_run("x", unit="GRU"),
        write_run("y", unit="RWA"),
        write_run("z", unit="RWA", recipe={"seed": 3}),
    ]
    assert labels([summarise(run) for run in runs]) == [
        "LSTM-1",
        "LSTM (mine)",
        "GRU",
        "RWA, seed 0",
        "RWA, seed 3",
    ]
