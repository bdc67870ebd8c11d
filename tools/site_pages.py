"""Builds the documentation as a site.

    python tools/site_pages.py           into site/
    python tools/site_pages.py FOLDER    into another folder

Its pages are those of docs/, some from elsewhere in the repository, and those of docs/site, which
ask for sections of the README and for the help of each command. All links are written for a reader
of the repository; here they become links of the site. Sphinx then makes the pages, and fails where
a link leads nowhere or a name of the reference does not exist.
"""

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "docs" / "site"
"""Pages that only the site has, and its settings."""
PAGES = {
    **{f"docs/{path.name}": path.name for path in sorted((ROOT / "docs").glob("*.md"))},
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/results/two_trees.md": "two_trees.md",
    "docs/report/report.md": "report.md",
    "rda/pretrained/wikipedia/README.md": "pretrained.md",
    "results/README.md": "records.md",
}
"""Each page, and what it is called on the site."""
del PAGES["docs/package.md"]  # the words of the package index
PICTURES = {
    "benchmarks/results/h200.png": "pictures/h200.png",
    "docs/demo/curves.png": "pictures/curves.png",
    "docs/demo/page.png": "pictures/page.png",
    "docs/pictures/rda.png": "pictures/rda.png",
    "docs/pictures/rwa.png": "pictures/rwa.png",
    "docs/pictures/weight.png": "pictures/weight.png",
}
WHOLE_PAGES = {"docs/demo": "demo/index.html", "docs/report": "report/index.html"}
"""Pages that commands have made; they are copied as they are."""
TO_SITE = {"README.md": "index.md", **PAGES, **PICTURES, **WHOLE_PAGES}

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
SECTION = re.compile(r"<!-- README: (.+) -->")
HELP = "<!-- the help of each command -->"


def build(to: Path) -> None:
    """Write the site into a folder, which is replaced."""
    with tempfile.TemporaryDirectory() as temporary:
        staged, made = Path(temporary, "pages"), Path(temporary, "made")
        stage(staged)
        line = ["-W", "--keep-going", "-q", "-E", "-b", "html", str(staged), str(made)]
        subprocess.run([sys.executable, "-m", "sphinx", *line], env=_plain(), check=True)
        shutil.rmtree(made / ".doctrees", ignore_errors=True)
        for folder, name in WHOLE_PAGES.items():
            page = made / name
            page.parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / folder / "index.html", page)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(made, to)


def stage(folder: Path) -> None:
    """All pages and pictures in one folder, with the links of the site."""
    shutil.copytree(OWN, folder)
    for page in folder.rglob("*.md"):
        name = page.relative_to(folder).as_posix()
        text = with_links_of_site(page.read_text(encoding="utf-8"), f"docs/site/{name}", name)
        text = SECTION.sub(lambda found, name=name: readme_section(found[1], name), text)
        text = re.sub(r"\A## ", "# ", text)  # a page that begins with a section has its title
        if HELP in text:
            text = text.replace(HELP, help_of_commands())
        page.write_text(text, encoding="utf-8")
    for path, name in PAGES.items():
        text = with_links_of_site(_text(path), path, name)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "pictures").mkdir()
    for path, name in PICTURES.items():
        shutil.copy(ROOT / path, folder / name)


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def with_links_of_site(text: str, path: str, name: str) -> str:
    """The text of a file of the repository, whose links lead to the pages of the site.

    A file that is not part of the site is named and not linked to.
    """

    def replaced(found: "re.Match[str]") -> str:
        picture, words, target, anchor = found.groups()
        if "://" in target:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        here = TO_SITE.get(target, target.removeprefix("docs/site/"))
        if here == target:
            return f"`{target}`" if (ROOT / target).exists() else found[0]
        if words in (target, posixpath.basename(target)) and target in PAGES:
            words = title(target)
        here = posixpath.relpath(here, posixpath.dirname(name) or ".")
        if target in WHOLE_PAGES:
            return f'<a href="{here}">{words}</a>'
        return f"{picture}[{words}]({here}{anchor or ''})"

    return LINK.sub(replaced, text)


def title(path: str) -> str:
    """The first heading of a page."""
    (found,) = re.findall(r"\A(?:---\n.*?\n---\n+)?# (.+)", _text(path), re.DOTALL)[:1]
    return found.partition("\n")[0]


def readme_section(heading: str, name: str) -> str:
    """A section of the README, with its heading."""
    readme = _text("README.md")
    found = re.search(
        rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", readme, re.DOTALL | re.MULTILINE
    )
    if found is None:
        raise ValueError(f"{name} asks for the section {heading!r} of the README, which has none")
    return with_links_of_site(found[0], "README.md", name)


def help_of_commands() -> str:
    """What `rda --help` and the help of each command print."""
    from rda.cli import COMMANDS

    sections = [f"## rda --help\n\n```text\n{printed('--help')}```"]
    for command in COMMANDS:
        sections.append(f"## rda {command}\n\n```text\n{printed(command, '--help')}```")
    return "\n\n".join(sections)


def printed(*line: str) -> str:
    """What the command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "rda", *line],
        env={**_plain(), "COLUMNS": "96", "NO_COLOR": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _plain() -> dict[str, str]:
    """The environment with this checkout's rda, without a person's settings, which help shows."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("RDA_")}
    return {**found, "PYTHONPATH": str(ROOT)}


def main() -> int:
    """Build the site and say where it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "site", help="where to")
    to: Path = parser.parse_args().folder
    if to.exists() and any(to.iterdir()) and not (to / "objects.inv").exists():
        print(f"{to} holds something else than a site: name another folder", file=sys.stderr)
        return 2
    try:
        build(to)
    except (subprocess.CalledProcessError, ValueError) as error:
        told = getattr(error, "stderr", None) or ""
        print(f"{told}the site was not built: {error}", file=sys.stderr)
        return 1
    print(f"the site: {to / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
