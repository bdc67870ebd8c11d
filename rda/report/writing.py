"""The report on some runs as files."""

from pathlib import Path
from typing import NamedTuple

from rda.files import write_atomically
from rda.report.comparison import Comparison
from rda.report.figure import render_png
from rda.report.page import render_page
from rda.report.reproduction import Reproduction
from rda.report.reproduction_markdown import render_reproduction_markdown
from rda.report.reproduction_page import render_reproduction


class ReportPaths(NamedTuple):
    """Where a report was written."""

    picture: Path
    page: Path


def write_report(folder: Path, comparison: Comparison, command: str = "") -> ReportPaths:
    """Write curves.png and index.html into `folder`, which is made if it is not there.

    `command` is the command that made the runs; the page shows it.
    """
    paths = ReportPaths(folder / "curves.png", folder / "index.html")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(paths.picture, render_png(comparison))
    write_atomically(paths.page, render_page(comparison, command).encode(errors="replace"))
    return paths


def write_reproduction(folder: Path, paper: Reproduction) -> tuple[Path, Path]:
    """Write index.html and the same as report.md into `folder`, which is made if need be."""
    page, text = folder / "index.html", folder / "report.md"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(page, render_reproduction(paper).encode(errors="replace"))
    write_atomically(text, render_reproduction_markdown(paper).encode(errors="replace"))
    return page, text
