"""The committed runs can be read, and what is said about them comes from them."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from rda.report.comparison import build_comparison
from rda.training.record import Record, run_folders

ROOT = Path(__file__).parents[1]
SETS = sorted(path for path in (ROOT / "results").iterdir() if path.is_dir())


@pytest.fixture
def end_to_end(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import end_to_end

    return end_to_end


@pytest.mark.parametrize("folder", SETS, ids=lambda folder: folder.name)
def test_every_committed_run_can_be_read_and_came_to_its_end(folder):
    runs = run_folders(folder)
    assert len(runs) == len([path for path in folder.iterdir() if path.is_dir()]) > 0
    for run in runs:
        record = Record(run)
        (row,) = build_comparison([record]).rows
        assert row.run.ended
        assert len(record.curve("loss")[0]) == record.status.step
        (start,) = record.environment
        assert start["command"].startswith("rda ")
        assert start["git"]["dirty"] is False


def test_the_readme_of_the_results_is_made_from_them(end_to_end):
    assert {folder.name for folder in SETS} == set(end_to_end.SETS)
    assert (ROOT / "results" / "README.md").read_text() == end_to_end.render_index()


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
