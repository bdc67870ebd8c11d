"""rda report: the paper's tables, curves and claims beside our runs, as a page and as Markdown."""

import base64
import hashlib
import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from fake_paper import write_paper

from rda.cli import main
from rda.experiments.catalogue import experiments
from rda.experiments.claims import CLAIMS
from rda.labels import COMPARED
from rda.report.axis import Axis
from rda.report.reproduction import BITS_DRAWN, build_reproduction
from rda.report.reproduction_markdown import render_reproduction_markdown
from rda.report.reproduction_page import render_reproduction

CHROMIUM = shutil.which("chromium") or ""


def invented(settings, published):
    if published is None:
        return 900 if settings.recipe.seed else math.inf
    return published


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    names = [name for name in experiments() if not name.startswith("study-")]
    folder = write_paper(tmp_path_factory.mktemp("runs"), names, invented)
    return build_reproduction(folder)


@pytest.fixture(scope="module")
def page(paper):
    return render_reproduction(paper)


class Balanced(HTMLParser):
    """Finds tags that are not closed in order."""

    ALONE = frozenset({"meta", "input", "img", "line", "path", "circle", "br"})

    def __init__(self):
        super().__init__()
        self.open = []
        self.text = []

    def handle_starttag(self, tag, attributes):
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.ALONE:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_every_cell_of_every_table_is_on_the_page(paper, page):
    reader = Balanced()
    reader.feed(page)
    assert reader.open == []
    text = " ".join(" ".join(reader.text).split())
    for view in paper.tables:
        assert view.table.caption in text
        for cell in view.cells:
            assert str(cell.published) in text
            assert cell.middle in text
    for claim in CLAIMS:
        assert claim.text in text
    assert (
        "30 of the 30 numbers in Tables 1 to 6 are as published; "
        "the 5 of Table 7 were trained with a recipe of our own." in text
    )
    assert "Not as section 6.1 says: schedule, warmup steps, clip norm, weight decay" in text


def test_it_has_the_six_panels_the_lemma_and_the_inside_of_a_unit(page):
    assert page.count('<figure class="chart') == 9
    assert [f">{panel}. " in page for panel in "abcdef"] == [True] * 6
    assert "bound of Lemma 1" in page
    assert "trained RWA" in page
    assert page.count("data:image/png;base64,") == 1


def test_bits_are_drawn_over_characters_and_over_time_near_those_that_learn(paper, page):
    read, timed = (
        figure for figure in page.split('<figure class="chart')[1:] if "validation bits" in figure
    )
    assert 'data-over="million characters" data-end="896.0"' in read
    assert "seconds of training</text>" in timed
    for figure in (read, timed):
        assert set(re.findall(r'data-label="([^"]+)"', figure)) == set(COMPARED)
        assert "RWA ends at 5.0" in figure
        assert "at the upper edge" in figure
    (view,) = (view for view in paper.tables if view.table.measure == "bits")
    lowest = min(value for curve in view.panel.curves for value in curve.smooth.values)
    assert view.panel.vertical == Axis(lowest, lowest + BITS_DRAWN)


def test_it_asks_for_nothing_from_the_network_and_allows_only_its_own_script(page):
    # One link, to the paper, which a person may follow.
    assert set(re.findall(r"https?://[^\s\"<]+", page)) == {"https://arxiv.org/abs/1705.08480"}
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    for kind in ("style", "script"):
        content = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"sha256-{digest}" in policy


def test_what_was_not_run_says_so(tmp_path):
    paper = build_reproduction(tmp_path)
    page, text = render_reproduction(paper), render_reproduction_markdown(paper)
    assert "35 are not run" in page
    assert "Not run." in page
    assert text.count("| not run | not run |") == 35
    assert "5 of 5 seeds not run" in text
    assert "25 runs are missing; the cost is not known" in page
    assert paper.short


def test_markdown_has_the_same_tables(paper):
    text = render_reproduction_markdown(paper)
    assert "| RDA-exp-tanh | 1,781 | 1,781 | as published, 1.00 x |" in text
    assert "| LSTM | > 10,000 | > 10,000 | as published, neither reached it |" in text
    assert "| LSTM | 1.492 | 1.492 | another recipe, +0.000 |" in text
    assert "| RWA | 5.067 | 5.067 | another recipe, neither learned it |" in text
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line[:1] == "|"}
    assert widths == {4, 5, 6}
    assert "Not run yet" not in text


def test_the_command_writes_both(tmp_path, capsys):
    write_paper(tmp_path / "runs", ["table-1"], invented)
    line = ["report", "--runs-dir", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(line) == 0
    assert "5 of the 35 numbers" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "runs" / "addition-RWA-seed1")  # others took 5 s for 1,735 steps
    assert main(line) == 0
    told = (tmp_path / "out" / "report.md").read_text()
    assert "Table 1: RWA 1 of 5 seeds not run. 1 run is missing, about 5.0 s on" in told
    assert (tmp_path / "out" / "index.html").exists()
    assert (tmp_path / "out" / "report.md").read_text().startswith("# The paper, reproduced")
    assert main(["report", "--runs-dir", str(tmp_path / "nothing")]) == 2


@pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_nothing_is_wider_than_the_screen(page, tmp_path, width):
    """A script of the test's own, allowed by a page without a policy, measures the page."""
    probe = """<script>
    const wide = [...document.querySelectorAll("body *")].filter((e) =>
      e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".values, svg, details"));
    document.title = JSON.stringify({
      wide: wide.map((e) => e.tagName), page: document.documentElement.scrollWidth,
      tips: document.querySelectorAll(".cover").length, hidden: (() => {
        document.getElementById("show-RWA").click();
        document.getElementById("task-copy").click();
        return ['tr[data-unit="RWA"]', 'div[data-task="copy"]', 'div[data-task="mnist"]'].map(
          (found) => getComputedStyle(document.querySelector(found)).display);
      })() });
    </script></body>"""
    without_policy = re.sub(r"<meta http-equiv=[^>]+>", "", page)
    file = tmp_path / "page.html"
    file.write_text(without_policy.replace("</body>", probe))
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},2000",
         "--dump-dom", file.as_uri()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    found = json.loads(re.search(r"<title>(\{.*?\})</title>", done.stdout)[1])
    assert found["hidden"] == ["none", "none", "block"]
    assert found["tips"] == 9
    assert found["wide"] == []
    assert found["page"] <= max(width, 500)  # chromium's smallest window is 500 wide
