"""The page: whole in one file, true to the records, and deaf to what a run calls itself."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from rda.report.page import render_page, write_page

NASTY = "<script>alert(1)<"
NASTIER = "\"'><script>alert(2)</script><img src=x onerror=alert(3)>{{ 7 * 7 }}"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = set(), [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += f" {data}"


@pytest.fixture
def records(write_run):
    rows = [{"step": s, "loss": 2.0 / s, "accuracy": 1 - 1 / s} for s in range(1, 200)]
    environment = [
        {
            "from_step": 0,
            "command": "rda train multicopy",
            "torch": "2.13.0+cpu",
            "gpu": None,
            "git": {"commit": "abc123", "dirty": False},
            "something_new": [1, 2],
        }
    ]
    return [
        write_run(
            "quick", rows=rows, step=199, seconds=10.0, goal_step=101, environment=environment
        ),
        write_run(
            "never",
            unit="RWA",
            rows=rows[:90],
            step=90,
            state="failed",
            reason="the loss broke",
            environment=[{**environment[0], "command": "rda train again"}],
        ),
    ]


def test_the_page_says_what_the_records_say(records, tmp_path):
    path = tmp_path / "page.html"
    write_page(path, "A title", records, command="rda compare multicopy")
    text = " ".join(Page(path.read_text(encoding="utf-8")).text.split())
    for fact in (
        "A title",
        "Copy again and again",
        "RDA-exp-tanh reached accuracy > 0.99, the first so far, at step 101",
        "> 90, failed",
        "the loss broke",
        "rda compare multicopy",
        "rda train again",
        "2.13.0+cpu",
        "git commit abc123",
        "git dirty no",
        "something new 1, 2",
        "hidden_size 250",
    ):
        assert fact in text


def test_nothing_a_run_brings_along_becomes_markup(write_run):
    environment = [{"command": NASTIER, NASTIER: NASTIER, "git": {"commit": NASTY}}]
    names = (NASTY, NASTIER.replace("/", "|"))
    runs = [
        write_run(name, state=NASTIER, reason=NASTIER, step=3, environment=environment)
        for name in names
    ]
    text = render_page(NASTIER, runs, command=NASTIER)
    page = Page(text)
    assert page.tags.isdisjoint({"script", "img"})
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert not re.search("<script|<img", text, re.IGNORECASE)
    assert all(part in page.text for part in (NASTY, NASTIER, *names))


def test_the_page_asks_for_nothing_else(records):
    text = render_page("A title", records)
    page = Page(text)
    assert page.tags.isdisjoint({"script", "link", "iframe", "object", "img"})
    for name, value in page.attributes:
        if name in ("src", "href", "xlink:href"):
            assert value.startswith("#")
    assert not re.search(r"@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_the_page_is_the_same_each_time_has_a_dark_side_and_fits_a_phone(records):
    text = render_page("A title", records)
    assert text == render_page("A title", records)
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_odd_runs_have_a_page(odd_runs, tmp_path):
    for runs in (odd_runs, odd_runs[1:2]):
        path = tmp_path / "page.html"
        write_page(path, "Odd \ud800", runs)
        assert "Odd ?" in path.read_text(encoding="utf-8")


def test_settings_in_which_runs_differ_are_shown_by_run(write_run):
    runs = [write_run("a", unit="RWA"), write_run("b", unit="GRU", recipe={"hidden_size": 64})]
    text = Page(render_page("A title", runs)).text
    assert "250: RWA" in text
    assert "64: GRU" in text
    assert "Not all runs have the same settings." in text


def test_no_runs_make_no_page(tmp_path):
    with pytest.raises(ValueError, match="no runs"):
        write_page(tmp_path / "page.html", "A title", [])
    assert list(tmp_path.iterdir()) == []


def test_reports_do_not_wait_for_torch():
    code = "import sys, rda.report.page, rda.report.tables, rda.report.terminal; "
    code += "print('torch' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
