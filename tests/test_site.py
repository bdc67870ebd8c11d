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


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The site, built by its command, which fails where Sphinx warns."""
    folder = tmp_path_factory.mktemp("site")
    line = [sys.executable, str(ROOT / "tools" / "site_pages.py"), str(folder)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(folder / "index.html") in done.stdout
    return folder


def test_every_public_name_is_in_the_reference(pages):
    index = (pages / "genindex.html").read_text()
    named = set(re.findall(r'href="api/[a-z]+\.html#([\w.]+)"', index))
    for name in set(rda.__all__) - {"PRETRAINED"}:
        found = getattr(rda, name)
        if not isinstance(found, ModuleType):
            assert f"rda.{name}" in named
    for module in (rda.estimators, rda.functional, rda.sequences, rda.tasks):
        for name in set(module.__all__) - {"Part"}:  # two words, said where they are used
            assert f"{module.__name__}.{name}" in named
    units = (pages / "api" / "units.html").read_text()
    for name in rda.functions.__all__:
        assert f'<span class="pre">{name}' in units
    assert "rda.PRETRAINED" in (pages / "api" / "training.html").read_text()


def test_every_page_of_the_documentation_is_there(pages):
    for name in site.PAGES.values():
        assert (pages / name).with_suffix(".html").stat().st_size > 2000
    for command in COMMANDS:
        assert f'id="rda-{command}"' in (pages / "command.html").read_text()


def test_links_lead_to_files_of_the_site(pages):
    for page in pages.rglob("*.html"):
        if page.parent.name in ("demo", "report"):
            continue  # made by commands
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text()):
            if "://" not in target and not target.startswith(("data:", "mailto:")):
                assert (page.parent / target).exists(), (page.name, target)


def test_nothing_is_loaded_from_elsewhere(pages):
    for page in pages.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r'<(?:script|img|iframe)[^>]*src="(?:https?:)?//', text)
        assert not re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//', text)


def test_links_are_those_of_the_site():
    def shown(text, path="docs/tasks.md", name="tasks.md"):
        return site.with_links_of_site(text, path, name)

    assert shown("[runs](runs.md#a)") == "[runs](runs.md#a)"
    assert shown("[b](../benchmarks/README.md)") == "[b](benchmarks.md)"
    assert shown("[b](../../units.md)", "docs/site/api/x.md", "api/x.md") == "[b](../units.md)"
    assert shown("[docs/runs.md](docs/runs.md)", "README.md") == "[Runs and their records](runs.md)"
    assert shown("[the loop](../rda/training/loop.py)") == "`rda/training/loop.py`"
    assert shown("[page](demo)", "docs/tasks.md") == '<a href="demo/index.html">page</a>'
    assert shown("[elsewhere](https://arxiv.org/abs/1)") == "[elsewhere](https://arxiv.org/abs/1)"


def test_a_section_that_the_readme_does_not_have_is_named():
    with pytest.raises(ValueError, match=r"start\.md asks for the section 'Nothing'"):
        site.readme_section("Nothing", "start.md")
