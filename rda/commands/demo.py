"""rda demo: the paper's headline, on this machine and in minutes."""

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

from rda.commands.arguments import parse
from rda.commands.compare import compare
from rda.commands.training import Machine, Place, default_runs, defaults, usable_device
from rda.labels import COMPARED
from rda.training.settings import paper_settings, small_settings

DESCRIPTION = """\
The multiple sequence copy task (section 6.4, Table 6) with RDA-exp-tanh, RDA-sigmoid-id, RWA,
LSTM and GRU: a small twin on a CPU, the paper's own size on a CUDA GPU. Ends with a table, a
picture and a page. Runs that are finished are shown again, not trained again.\
"""


@dataclass(frozen=True)
class DemoArguments:
    """Where and how."""

    device: str = "auto"
    """cpu, cuda, ...; auto is the GPU where there is one."""
    runs_dir: Path = field(default_factory=default_runs)
    """Folder of runs ($RDA_RUNS)."""
    force: bool = False
    """Train again what is finished."""


def run(given: list[str]) -> int:
    """Compare the five units of the paper on multicopy."""
    asked = parse(DemoArguments(), "rda demo", given, DESCRIPTION)
    device = usable_device(asked.device)
    size = small_settings if device.type == "cpu" else paper_settings
    start = size("multicopy", COMPARED[0])
    place = Place(name="demo", runs_dir=asked.runs_dir, force=asked.force)
    training = replace(defaults(start), machine=Machine(device=str(device)), place=place)
    return compare(training, list(COMPARED), shlex.join(["rda", "demo", *given]))
