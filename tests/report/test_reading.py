"""One odd record never takes the report on the others away."""

import json

import pytest

from rda.report.comparison import build_comparison
from rda.report.page import render_page
from rda.report.reading import read_run
from rda.report.terminal import render_terminal
from rda.training.record import METRICS, STATUS
from rda.training.status import RecordError

ROWS = [{"step": s, "loss": 1 / s, "accuracy": 1 - 1 / s} for s in range(1, 50)]


@pytest.mark.parametrize(
    "odd",
    [
        {"reason": None},
        {"reason": ["no", {"memory": 1}], "state": "failed"},
        {"state": None},
        {"state": 7},
        {"state": {"a": "b"}, "reason": 3.5},
        {"step": None},
        {"step": "49"},
        {"seconds": "long"},
        {"seconds": float("nan")},
        {"goal_step": "soon"},
        {"goal_step": True, "trailing_goal_step": -4},
        {"best": None, "test": None},
        {"best": {"validation_accuracy": "high"}, "test": [1, 2]},
        {"state": "", "reason": " \x1b[2J"},
        {"something": "new"},
    ],
    ids=str,
)
def test_odd_values_in_a_status_do_not_break_the_report(write_run, odd):
    good = write_run("good", unit="RWA", rows=ROWS, step=49, goal_step=40)
    record = write_run("odd", rows=ROWS)
    (record.folder / STATUS).write_text(json.dumps({"state": "finished", "step": 49, **odd}))
    comparison = build_comparison([record, good])
    assert {row.label for row in comparison.rows} == {"RDA-exp-tanh", "RWA"}
    assert "RWA reached accuracy > 0.99" in comparison.headline
    assert "None" not in render_page(comparison)
    assert render_terminal(comparison, 80)


@pytest.mark.parametrize(
    "environment",
    [
        [],
        [{}],
        [{"torch": "2.13"}],
        [{"command": None, "git": None}],
        [{"command": ["rda", 1], "git": "abc", "deep": {"a": {"b": {"c": {"d": {"e": 1}}}}}}],
        [{"git": {"dirty": True}}, {"git": {"commit": None, "dirty": "maybe"}}],
    ],
    ids=str,
)
def test_odd_environments_do_not_break_the_page(write_run, environment):
    runs = [
        write_run("odd", rows=ROWS, step=49, environment=environment),
        write_run("good", unit="RWA", rows=ROWS, step=49, environment=[{"command": "rda demo"}]),
    ]
    assert "rda demo" in render_page(build_comparison(runs))


def test_uncommitted_changes_are_told(write_run):
    environment = [{"git": {"commit": "abc123", "dirty": True}}]
    comparison = build_comparison([write_run(rows=ROWS, step=49, environment=environment)])
    assert comparison.environment["git"] == "abc123 with uncommitted changes"


@pytest.mark.parametrize("file", [STATUS, METRICS])
def test_a_run_that_cannot_be_read_is_listed_with_the_reason(write_run, file):
    good = write_run("good", unit="RWA", rows=ROWS, step=49, goal_step=40)
    bad = write_run("bad", rows=ROWS, step=49, goal_step=30)
    (bad.folder / file).write_text("{not json\n")
    with pytest.raises(RecordError):
        read_run(bad)
    comparison = build_comparison([bad, good])
    first, last = comparison.rows
    assert (first.label, last.run.state) == ("RWA", "unreadable")
    assert file in last.note
    assert file in render_page(comparison)


def test_a_record_of_an_older_version_is_read(write_run):
    """Before timings were recorded apart, and before a status named the best evaluation."""
    record = write_run(rows=ROWS)
    status = {"state": "finished", "reason": "", "step": 49, "seconds": 4.9, "goal_step": 40}
    (record.folder / STATUS).write_text(json.dumps(status))
    (record.folder / "timing.jsonl").unlink()
    (record.folder / "environment.json").unlink()
    (row,) = build_comparison([record]).rows
    assert row.run.seconds_to_goal == pytest.approx(4.0)
