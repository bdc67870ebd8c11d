"""What tools/publish.py writes about recorded runs."""

import pytest

from rda.report.comparison import build_comparison
from rda.report.markdown import render_markdown


@pytest.fixture
def records(write_run):
    rows = [{"step": s, "loss": 2.0 / s, "accuracy": 1 - 1 / s} for s in range(1, 100)]
    environment = [
        {"gpu": "a GPU", "torch": "2.11", "git": {"commit": "abc1234567"}, "command": "rda demo"}
    ]
    facts = {"rows": rows, "environment": environment, "step": 99, "seconds": 9.9}
    return [
        write_run("b", "multicopy", "RWA", goal_step=90, **facts),
        write_run("c", "multicopy", "GRU", goal_step=50, **facts),
    ]


def test_the_demo_has_the_table_that_every_report_has(publish, records):
    text = publish.render_demo(records)
    assert text.startswith("    rda demo\n\na GPU, torch 2.11, commit `abc1234`.")
    assert render_markdown(build_comparison(records)) in text


def test_runs_of_different_machines_do_not_claim_one(publish, records, write_run):
    other = write_run("d", "multicopy", environment=[{"torch": "2.13", "command": "rda demo"}])
    assert "Not all of these ran on the same machine." in publish.render_demo([*records, other])


def test_the_machines_of_the_paper_are_counted(publish, records, write_run):
    other = write_run("d", "copy", environment=[{"torch": "2.13"}])
    assert publish.machines_of([other, *records]) == (
        "- 2 runs: a GPU, torch 2.11.\n- 1 run: torch 2.13."
    )


def test_a_readme_without_a_place_for_the_results(publish):
    with pytest.raises(ValueError, match="there is no part between"):
        publish.with_part("# A README", publish.START, "")
