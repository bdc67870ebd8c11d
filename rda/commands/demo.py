"""rda demo: five units on multiple sequence copy, on this machine and in minutes."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from rda.commands.compare import compare
from rda.commands.parser import Parser, add_options, given_values, make
from rda.commands.training import as_usage_errors
from rda.labels import COMPARED
from rda.options import Machine, Place, default_runs
from rda.settings import check_at_least
from rda.training.settings import full_settings, small_settings

SUMMARY = "five units on multiple sequence copy, in minutes"
DESCRIPTION = """\
The multiple sequence copy task (section 6.4, Table 6) with RDA-exp-tanh, RDA-sigmoid-id, RWA,
LSTM and GRU: a small twin on a CPU, the paper's own size on a CUDA GPU. Ends with a table, a
picture and a page. Runs that are finished are shown again, not trained again.
"""


@dataclass(frozen=True)
class DemoOptions:
    """Where and how the demo runs."""

    device: str = "auto"
    """Device: cpu, cuda, ...; auto takes the GPU where there is one."""
    threads: int = 0
    """CPU threads; 0 for torch's own choice. Fewer are quicker where others use the cores."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""
    force: bool = False
    """Train again what is finished."""

    def __post_init__(self) -> None:
        check_at_least("threads", self.threads, 0)


def add(parser: Parser, explain: bool) -> None:
    """The options."""
    parser.description = DESCRIPTION
    add_options(parser, "options of the demo", DemoOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Compare the five units of the paper on multicopy."""
    options: DemoOptions = make(DemoOptions, given_values(asked, DemoOptions))
    from rda.training.resources import find_device

    with as_usage_errors():
        device = find_device(options.device)
    size = small_settings if device.type == "cpu" else full_settings
    runs = [size("multicopy", unit) for unit in COMPARED]
    place = Place(name="demo", runs_dir=options.runs_dir, force=options.force)
    return compare(runs, Machine(device=str(device), threads=options.threads), place, command)
