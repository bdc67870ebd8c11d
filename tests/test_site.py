"""The documentation as a site: links that lead somewhere, a reference of every public name."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import rda
import rda.sequences
from rda.cli import COMMANDS

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import site_pages as site  # noqa: E402


def test_the_site(tmp_path):
    """One test, because the site takes a while to build."""
    line = [sys.executable, str(ROOT / "tools" / "site_pages.py"), str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "index.html") in done.stdout
    every_public_name_is_in_the_reference(tmp_path)
    every_page_of_the_documentation_is_there(tmp_path)
    links_lead_to_files_of_the_site(tmp_path)
    nothing_is_loaded_from_elsewhere(tmp_path)
    assert not list((tmp_path / "_static").glob("*.md"))


def every_public_name_is_in_the_reference(pages):
    index = (pages / "genindex.html").read_text()
    named = set(re.findall(r'href="api/[a-z]+\.html#([\w.]+)"', index))
    for name in set(rda.__all__) - {"PRETRAINED"}:
        if not isinstance(getattr(rda, name), ModuleType):
            assert f"rda.{name}" in named
    for module in (rda.estimators, rda.functional, rda.sequences, rda.tasks):
        for name in set(module.__all__) - {"Part"}:  # a type of two words, which has no docstring
            assert f"{module.__name__}.{name}" in named
    units = (pages / "api" / "units.html").read_text()
    for name in rda.functions.__all__:
        assert f'<span class="pre">{name}' in units
    assert "rda.PRETRAINED" in (pages / "api" / "training.html").read_text()


def every_page_of_the_documentation_is_there(pages):
    for path, name in site.PAGES.items():
        text = (pages / name).with_suffix(".html").read_text()
        heading = re.search(r"<h1>(.*?)<a", text, re.DOTALL)[1]
        assert re.sub(r"<[^>]*>", "", heading) == site.title(path).replace("`", "")
    for command in COMMANDS:
        assert f'id="rda-{command}"' in (pages / "command.html").read_text()


def links_lead_to_files_of_the_site(pages):
    for page in pages.rglob("*.html"):
        if page.parent.name in ("demo", "report"):
            continue  # made by commands
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text()):
            if "://" not in target and not target.startswith(("data:", "mailto:")):
                assert (page.parent / target).exists(), (page.name, target)


def nothing_is_loaded_from_elsewhere(pages):
    for page in pages.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r'<(?:script|img|iframe)[^>]*src="(?:https?:)?//', text)
        assert not re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//', text)


def test_a_folder_with_something_else_is_not_replaced(tmp_path):
    (tmp_path / "mine.txt").write_text("words")
    line = [sys.executable, str(ROOT / "tools" / "site_pages.py"), str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (tmp_path / "mine.txt").read_text() == "words"


def test_links_are_those_of_the_site():
    def shown(text, path="docs/tasks.md", name="tasks.md"):
        return site.with_links_of_site(text, path, name)

    assert shown("[runs](runs.md#a)") == "[runs](runs.md#a)"
    assert shown("[b](../benchmarks/README.md)") == "[b](benchmarks.md)"
    assert shown("[b](../../units.md)", "docs/site/api/x.md", "api/x.md") == "[b](../units.md)"
    assert shown("[docs/runs.md](docs/runs.md)", "README.md") == "[Runs and their records](runs.md)"
    assert shown("[runs.md](runs.md)") == "[Runs and their records](runs.md)"
    assert shown("[the loop](../rda/training/loop.py)") == "`rda/training/loop.py`"
    assert shown("[page](demo)", "docs/tasks.md") == '<a href="demo/index.html">page</a>'
    assert shown("[elsewhere](https://arxiv.org/abs/1)") == "[elsewhere](https://arxiv.org/abs/1)"


def test_a_section_that_the_readme_does_not_have_is_named():
    with pytest.raises(ValueError, match=r"start\.md asks for the section 'Nothing'"):
        site.readme_section("Nothing", "start.md")
