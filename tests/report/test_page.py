"""The page: whole in one file, true to the records, and deaf to what a run calls itself."""

import base64
import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from rda.labels import COMPARED
from rda.report.chart import over_steps
from rda.report.comparison import build_comparison
from rda.report.geometry import HEIGHT
from rda.report.markdown import render_markdown
from rda.report.page import render_page
from rda.report.wording import MISSING
from rda.report.writing import write_report

NASTY = "<script>alert(1)<"
NASTIER = "\"'><script>alert(2)</script><img src=x onerror=alert(3)>{{ 7 * 7 }}"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.by_tag = {}
        self.inside = ""
        self.code = {"script": "", "style": ""}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.by_tag.setdefault(tag, []).append(dict(attrs))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in self.code:
            self.code[self.inside] += data
        else:
            self.text += f" {data}"

    @property
    def words(self):
        return " ".join(self.text.split())

    def charts(self):
        return [svg for svg in self.by_tag["svg"] if svg.get("role") == "img"]

    def of_class(self, tag, name):
        return [each for each in self.by_tag.get(tag, ()) if name in each.get("class", "").split()]


def page_of(records, command=""):
    return Page(render_page(build_comparison(records), command))


def curve(count, speed=1.0):
    return [
        {"step": s, "loss": 2.0 / (1 + s * speed), "accuracy": 1 - 1 / (1 + s * speed)}
        for s in range(1, count + 1)
    ]


@pytest.fixture
def records(write_run):
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
            "quick",
            rows=curve(199),
            step=199,
            seconds=10.0,
            timing=[(100, 5.0)],
            goal_step=101,
            environment=environment,
        ),
        write_run(
            "never",
            unit="RWA",
            rows=curve(90, 0.5),
            step=90,
            seconds=9.0,
            state="failed",
            reason="the loss broke",
            environment=[{**environment[0], "command": "rda train again"}],
        ),
    ]


def test_the_page_says_what_the_records_say(records, tmp_path):
    paths = write_report(
        tmp_path / "new" / "report", build_comparison(records), "rda compare multicopy"
    )
    assert paths.picture.read_bytes().startswith(b"\x89PNG")
    assert sorted(paths.page.parent.iterdir()) == sorted(paths)
    words = Page(paths.page.read_text(encoding="utf-8")).words
    for fact in (
        "Multiple sequence copy",
        "Remember and repeat symbols again and again",
        "RDA-exp-tanh reached accuracy > 0.99, the first so far, at step 101",
        "> 90, failed",
        "the loss broke",
        "rda compare multicopy",
        "rda train again",
        "2.13.0+cpu",
        "git abc123",
        "something new 1, 2",
        "hidden_size 250",
    ):
        assert fact in words


def test_nothing_a_run_brings_along_becomes_markup(write_run):
    environment = [{"command": NASTIER, NASTIER: NASTIER, "git": {"commit": NASTY}}]
    names = (NASTY, NASTIER.replace("/", "|"))
    facts = {"state": NASTIER, "reason": NASTIER, "environment": environment}
    runs = [write_run(name, rows=curve(3), step=3, **facts) for name in names]
    text = render_page(build_comparison(runs), NASTIER)
    page = Page(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert len(re.findall("<script|<img", text, re.IGNORECASE)) == 1
    assert all(part in page.text for part in (NASTY, NASTIER, *names))


def test_a_browser_runs_our_script_and_nothing_else(records):
    page = page_of(records)
    (policy,) = (
        meta["content"]
        for meta in page.by_tag["meta"]
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed.keys() == {"default-src", "img-src", "style-src", "script-src"}
    assert allowed["img-src"] == "data:"
    assert allowed["default-src"] == "'none'"
    for kind in ("script", "style"):
        digest = hashlib.sha256(page.code[kind].encode()).digest()
        assert allowed[f"{kind}-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert not any(name == "style" for _, name, _ in page.attributes)


def test_the_page_asks_for_nothing_else(records):
    page = page_of(records)
    assert set(page.tags).isdisjoint({"link", "iframe", "object", "img"})
    for tag, name, value in page.attributes:
        assert name not in ("src", "xlink:href")
        if name == "href":
            assert (tag, value) == ("a", "https://arxiv.org/abs/1705.08480")
    assert not re.search(r"@import|url\(", page.code["style"])


def test_the_page_is_the_same_each_time_has_a_dark_side_and_fits_a_phone(records):
    text = render_page(build_comparison(records))
    assert text == render_page(build_comparison(records))
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_a_page_of_long_runs_is_not_large(write_run):
    runs = [
        write_run(unit, unit=unit, rows=curve(4000), step=4000, seconds=100.0) for unit in COMPARED
    ]
    assert len(render_page(build_comparison(runs))) < 500_000


def test_odd_runs_have_a_page(odd_runs, tmp_path):
    for runs in (odd_runs, odd_runs[1:2]):
        path = write_report(tmp_path, build_comparison(runs), "Odd \ud800").page
        assert "Odd ?" in path.read_text(encoding="utf-8")


def test_a_run_without_a_step_has_a_page_that_says_so(write_run):
    page = page_of([write_run(state="running")])
    assert "nothing to draw yet" in page.text
    assert "Table of values" not in page.text


def test_settings_in_which_runs_differ_are_shown_by_run(write_run):
    runs = [write_run("a", unit="RWA"), write_run("b", unit="GRU", recipe={"hidden_size": 64})]
    text = page_of(runs).text
    assert "250: RWA" in text
    assert "64: GRU" in text
    assert "Not all runs have the same settings." in text


def test_rows_that_say_nothing_are_left_out(records):
    words = page_of(records).words
    for noise in ("gpu", "evaluate_every", "minutes", "learn_initial_state", "dirty", "from step"):
        assert noise not in words
    assert "seed 0" in words


def test_no_runs_make_no_page(tmp_path):
    with pytest.raises(ValueError, match="no runs"):
        write_report(tmp_path / "page", build_comparison([]))
    assert list(tmp_path.iterdir()) == []


class TestCharts:
    def test_a_chart_is_text_with_a_name_and_a_description(self, records):
        page = page_of(records)
        charts = page.charts()
        assert len(charts) == 4
        for chart in charts:
            assert int(chart["height"]) <= 360
        for words in ("loss, mean of 3 batches, over steps", "over seconds", "seconds of training"):
            assert words in page.words
        assert "RDA-exp-tanh ends at 0.995, step 199" in page.words
        ids = [value for _, name, value in page.attributes if name == "id"]
        named = [name for chart in charts for name in chart["aria-labelledby"].split()]
        assert set(named) <= set(ids)
        assert len(ids) == len(set(ids))

    def test_steps_and_time_are_both_there_without_a_script(self, records):
        page = page_of(records)
        switches = page.by_tag["input"]
        assert [(each["type"], each["name"]) for each in switches] == [("radio", "over")] * 2
        assert [each["data-over"] for each in page.charts()] == ["steps"] * 2 + ["seconds"] * 2
        assert "#over-steps:checked ~ .by-time" in page.code["style"]

    def test_without_timings_there_is_no_axis_of_time(self, write_run):
        page = page_of([write_run(rows=curve(20), step=20)])
        assert {each["data-over"] for each in page.charts()} == {"steps"}
        assert "input" not in page.tags

    def test_a_run_without_timings_is_named_where_others_have_them(self, write_run, records):
        page = page_of([*records, write_run("untimed", unit="GRU", rows=curve(20), step=20)])
        assert "No timing was recorded for GRU." in page.words

    @pytest.mark.parametrize(
        ("seconds", "unit"), [(170.0, "seconds"), (600.0, "minutes"), (20_000.0, "hours")]
    )
    def test_time_is_in_a_unit_that_suits_it(self, write_run, seconds, unit):
        page = page_of([write_run(rows=curve(20), step=20, seconds=seconds)])
        assert f"{unit} of training" in page.words

    def test_every_point_of_a_curve_has_its_value_for_the_pointer(self, records):
        page = page_of(records)
        curves = page.of_class("g", "curve")
        paths = page.of_class("path", "smooth")
        assert len(curves) == len(paths) == 8
        for group, path in zip(curves, paths, strict=True):
            points = re.findall(r"[ML](-?\d+) (-?\d+)", path["d"])
            assert len(points) == len(group["data-values"].split()) > 50
            assert group["data-label"] in ("RDA-exp-tanh", "RWA, failed")

    def test_values_can_be_read_from_a_table(self, records):
        words = page_of(records).words
        assert "steps RDA-exp-tanh RWA, failed 20 " in words
        assert f"100 0.99 {MISSING}" in words
        assert "at the end 0.995 0.978" in words

    def test_single_batches_stand_behind_the_means(self, records):
        assert len(page_of(records).of_class("path", "raw")) == 8

    def test_curves_are_named_at_their_ends_and_names_do_not_cover_each_other(self, write_run):
        runs = [write_run(unit, unit=unit, rows=curve(60), step=60) for unit in COMPARED]
        comparison = build_comparison(runs)
        for panel in comparison.panels:
            labels = over_steps(panel).labels
            assert {label.text for label in labels} == set(COMPARED)
            heights = sorted(label.place.y * HEIGHT / 100 for label in labels)
            assert all(b - a >= 14.9 for a, b in pairwise(heights))
            assert heights[0] > -10
            assert heights[-1] < HEIGHT

    def test_goals_at_the_same_step_are_rings_around_each_other(self, write_run):
        runs = [
            write_run(unit, unit=unit, rows=curve(200), step=200, goal_step=150)
            for unit in ("LSTM", "GRU")
        ]
        marks = page_of(runs).of_class("circle", "mark")
        assert [float(mark["r"]) for mark in marks] == [7.5, 4.5]

    def test_a_curve_has_a_gap_where_the_loss_broke(self, write_run):
        rows = curve(10)
        rows[5]["loss"] = float("nan")
        loss, _ = page_of([write_run(rows=rows, step=10)]).of_class("path", "smooth")
        assert loss["d"].count("M") == 2

    def test_evaluations_are_drawn(self, write_run):
        rows = [*curve(20), {"step": 20, "validation_loss": 0.3, "validation_accuracy": 0.8}]
        page = page_of([write_run(task="mnist", rows=rows, step=20)])
        assert "evaluations on the validation data" in page.words
        assert page.of_class("path", "validation")


class TestWhatIsSaid:
    def test_what_the_units_are(self, records):
        words = page_of(records).words
        assert "Recurrent Discounted Attention unit" in words
        assert "RDA-exp-tanh uses exp for its attention and tanh at its output" in words
        assert "RWA, the Recurrent Weighted Average" in words
        assert "Long Short-Term Memory" not in words

    def test_two_seeds_of_a_unit_are_called_by_their_seeds(self, write_run):
        runs = [
            write_run(f"run-{seed}", rows=curve(9), recipe={"seed": seed}, step=9)
            for seed in (0, 7)
        ]
        assert "RDA-exp-tanh, seed 7" in page_of(runs).words

    @pytest.mark.parametrize("unit", ["Mine", "RDA-exp-tanh"])
    def test_a_task_from_outside_is_not_measured_by_the_paper(self, write_own_run, outside, unit):
        record = write_own_run("mine", unit, outside(numbers=4), rows=curve(9), step=9)
        page = page_of([record])
        assert "Guess the next number." in page.words
        assert "paper" not in page.words.lower()
        assert "Sections and tables" not in page.words
        assert "paper" not in render_markdown(build_comparison([record]))

    def test_settings_unlike_the_defaults_of_a_task_from_outside_are_named(
        self, write_own_run, outside, monkeypatch
    ):
        usual = write_own_run("usual", "Mine", outside()).settings
        monkeypatch.setattr("rda.report.summary.full_settings", lambda task, unit: usual)
        record = write_own_run("mine", "Mine", outside(numbers=4), rows=curve(9), step=9)
        comparison = build_comparison([record])
        assert comparison.difference_note == "unlike the defaults: numbers 4"
        assert "Unlike the defaults, all runs have numbers 4." in page_of([record]).words

    def test_the_papers_own_place_is_named(self, write_run):
        record = write_run(small=True)
        page = page_of([record])
        assert "(section 6.4, Table 6)." in page.words
        assert "Unlike the paper, all runs have hidden_size 64" in page.words


def test_reports_do_not_wait_for_torch():
    code = "import sys, rda.report.writing, rda.report.tables, rda.report.terminal; "
    code += "print('torch' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
