"""The committed runs can be read, and what is said about them comes from them."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from copied_checkouts import is_of_a_commit

from rda.report.comparison import build_comparison
from rda.report.reproduction import build_reproduction
from rda.report.reproduction_markdown import render_reproduction_markdown
from rda.training.record import Record, run_folders

ROOT = Path(__file__).parents[1]
BESIDE_A_NEW_FILE = {
    f"wikipedia-RDA-exp-tanh-seed0-{digest}" for digest in ("070056", "3fc801", "7ccf49", "e76e36")
}
"""Runs that called their checkout changed: a benchmark had just written its results into it."""
SETS = sorted(path for path in (ROOT / "results").iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def paper():
    return build_reproduction(ROOT / "results" / "paper")


@pytest.mark.parametrize("folder", SETS, ids=lambda folder: folder.name)
def test_every_committed_run_can_be_read_and_came_to_its_end(folder):
    runs = run_folders(folder)
    assert len(runs) == len([path for path in folder.iterdir() if path.is_dir()]) > 0
    for run in runs:
        record = Record(run)
        (row,) = build_comparison([record]).rows
        assert row.run.ended
        assert record.status.thinned or len(record.curve("loss")[0]) == record.status.step
        for start in record.environment:
            assert start["command"].startswith("rda ")
            assert is_of_a_commit(start["git"]) or run.name in BESIDE_A_NEW_FILE


def test_what_is_said_about_the_runs_is_made_from_them(publish, paper):
    assert {folder.name for folder in SETS} == {"again", "demo", "paper", "sequences"}
    assert (ROOT / "results" / "README.md").read_text() == publish.render_index()
    readme = (ROOT / "README.md").read_text()
    assert publish.with_results(readme, paper) == readme


def test_the_report_in_the_docs_is_made_from_the_runs(paper):
    report = (ROOT / "docs" / "report" / "report.md").read_text()
    assert render_reproduction_markdown(paper) == report
    page = _Text((ROOT / "docs" / "report" / "index.html").read_text(encoding="utf-8"))
    assert paper.headline in " ".join(page.text.split())


def test_runs_of_the_paper_have_its_settings_and_none_died(paper):
    assert len(paper.runs) == len(run_folders(ROOT / "results" / "paper"))
    assert not [run.name for run in paper.runs if run.state not in ("finished", "stopped")]


def test_the_records_stay_small():
    total = sum(path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file())
    assert total < 15e6


class _Text(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.text = ""
        self.feed(text)

    def handle_data(self, data):
        self.text += f" {data}"


def test_the_page_in_the_docs_shows_the_committed_runs():
    records = [Record(folder) for folder in run_folders(ROOT / "results" / "demo")]
    comparison = build_comparison(records)
    page = _Text((ROOT / "docs" / "demo" / "index.html").read_text(encoding="utf-8"))
    words = " ".join(page.text.split())
    assert comparison.headline in words
    for row in comparison.rows:
        assert " ".join([row.label, *row.cells]) in words


def test_the_pictures_in_the_docs_are_there():
    for name in ("curves.png", "page.png"):
        assert (ROOT / "docs" / "demo" / name).read_bytes().startswith(b"\x89PNG")
