"""rda report: the paper's tables and figures beside our runs."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from rda.commands.finding import folder_of_runs
from rda.commands.parser import Parser, add_options, given_values, make
from rda.options import default_runs

SUMMARY = "the paper's tables, figures and claims beside the recorded runs, as a page"
DESCRIPTION = """\
Read the runs of `rda reproduce` and write one page (index.html, which asks for nothing from the
network) and the same as Markdown (report.md): Tables 1 to 7 with the medians and ranges of our
seeds beside the published numbers, learning curves, the study of activations, Lemma 1, what a
unit looks at, and a verdict on each claim of the paper. What was not run reads "not run".
In a checkout of rda, --runs-dir results/paper has the recorded runs.
"""


@dataclass(frozen=True)
class ReportOptions:
    """Where the runs are, and where the report goes."""

    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""
    out: Path = Path("report")
    """Folder for the page and the Markdown."""


def add(parser: Parser, explain: bool) -> None:
    """The options."""
    parser.description = DESCRIPTION
    add_options(parser, "options", ReportOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Write the report and say what it holds."""
    from rich.console import Console

    from rda.report.reproduction import build_reproduction
    from rda.report.writing import write_reproduction

    options: ReportOptions = make(ReportOptions, given_values(asked, ReportOptions))
    paper = build_reproduction(folder_of_runs(options.runs_dir))
    page, text = write_reproduction(options.out, paper)
    console = Console()
    for line in (paper.headline, f"page: {page}", f"text: {text}"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0
