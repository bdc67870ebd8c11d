"""rda export: a trained model as a file that runs without this package."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rda.commands.finding import find_run
from rda.commands.parser import Parser, add_options, folder, given_values, make
from rda.commands.training import as_usage_errors
from rda.options import default_runs

SUMMARY = "a trained model as a file for ONNX or torch.export"
DESCRIPTION = """\
Write the model of a run as a file that runs without rda: an ONNX file of standard operators, or a
program of torch.export. Batch and time may have any size. The file is compared with the model
first, and written only where the two are equal to 1e-5. docs/export.md says how to use it.
"""
EXAMPLES = """\
Examples:
  rda train multicopy RDA-exp-tanh --small --name mine
  rda export mine --to onnx                      runs/mine/model.onnx
  rda export mine --to onnx --one-step           runs/mine/model-one-step.onnx
  rda export mine --to torch -o mine.pt2
"""


@dataclass(frozen=True)
class ExportOptions:
    """Which file, and where the run is."""

    to: Literal["onnx", "torch"] = "onnx"
    """Operators of ONNX, or a program of torch.export."""
    one_step: bool = False
    """A single step, for streams: the state goes in and comes out."""
    with_state: bool = False
    """The state to start from is an input too."""
    with_lengths: bool = False
    """The number of steps of each row of a padded batch is an input too."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""


def add(parser: Parser, explain: bool) -> None:
    """The run, the file and the options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.usage = "rda export RUN --to onnx|torch [-o FILE] [options]"
    parser.add_argument("run", metavar="RUN", help="a name, or a folder")
    place = "the file (default: model.onnx or model.pt2 in the run's folder)"
    parser.add_argument("-o", "--output", metavar="FILE", type=folder, help=place)
    add_options(parser, "options", ExportOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Load, export, say how well the file and the model agree."""
    options: ExportOptions = make(ExportOptions, given_values(asked, ExportOptions))
    with as_usage_errors():
        found = find_run(asked.run, options.runs_dir).folder
        from rda.exporting.by_format import SUFFIXES, export
        from rda.training.loading import load

        model = load(found)
    form = "model-one-step" if options.one_step else "model"
    given = {
        "module": model,
        "path": asked.output or found / f"{form}{SUFFIXES[options.to]}",
        "to": options.to,
        "one_step": options.one_step,
        "with_state": options.with_state,
        "with_lengths": options.with_lengths,
    }
    written = make(export, given)
    size = written.path.stat().st_size / 1000
    print(f"{written.path}: {size:,.0f} kB, equal to the model to {written.difference:.1e}")
    return 0
