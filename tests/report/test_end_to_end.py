"""Whole runs in the benchmarks: one comparison for each task, as in every other report."""

from pathlib import Path

import pytest

from rda.report.comparison import build_comparison
from rda.report.markdown import render_markdown

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def end_to_end(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import end_to_end

    return end_to_end


@pytest.fixture
def records(write_run):
    rows = [{"step": s, "loss": 2.0 / s, "accuracy": 1 - 1 / s} for s in range(1, 100)]
    environment = [
        {"gpu": "a GPU", "torch": "2.11", "git": {"commit": "abc1234567"}, "command": "rda demo"}
    ]
    facts = {"rows": rows, "environment": environment, "step": 99, "seconds": 9.9}
    return [
        write_run("b", "multicopy", "RWA", goal_step=90, **facts),
        write_run("a", "addition", "RWA", state="stopped", **facts),
        write_run("c", "multicopy", "GRU", goal_step=50, **facts),
    ]


def test_each_task_has_the_table_that_every_report_has(end_to_end, records):
    text = end_to_end.render(records)
    assert text.startswith("a GPU, torch 2.11, commit `abc1234`.")
    assert text.index("### Addition") < text.index("### Multiple sequence copy")
    assert render_markdown(build_comparison([records[0], records[2]])) in text


def test_runs_of_different_machines_do_not_claim_one(end_to_end, records, write_run):
    other = write_run("d", "copy", environment=[{"torch": "2.13"}])
    assert end_to_end.render([*records, other]).startswith("Not all of these ran on the same")


def test_the_index_names_what_each_set_is_and_its_command(end_to_end, records):
    folder = records[0].folder.parent
    text = end_to_end.render_index({folder.name: "Some runs."}, folder.parent)
    assert f"## {folder.name}\n\nSome runs.\n\n    rda demo\n\na GPU, torch 2.11" in text


def test_a_folder_without_runs_has_no_records(end_to_end, tmp_path):
    assert end_to_end.read(tmp_path / "nothing") == []


def test_the_curves_of_all_tasks_are_one_picture(end_to_end, records, tmp_path):
    import pictures

    pictures.draw_curves(tmp_path / "curves.png", records)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
