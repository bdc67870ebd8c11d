"""rda doctor: which engine runs here, why, and whether it is right."""

import argparse
from dataclasses import dataclass
from typing import Literal

from rda.commands.parser import Parser, UsageError, add_options, given_values, make
from rda.commands.training import as_usage_errors
from rda.settings import check_at_least

SUMMARY = "which engine runs here, why, and whether it is right"
DESCRIPTION = """\
What this machine can run, where compiled code is kept, which engine would be chosen, and whether
each is right: its outputs, states and gradients are compared with the reference in float64. If
compiling the CPU kernel failed before, it is tried again.
"""
EXAMPLES = """\
Examples:
  rda doctor
  rda doctor --units 64 --batch 8
  rda doctor --attention softplus
  rda doctor --device cuda --dtype bfloat16 --units 1800
"""


@dataclass(frozen=True)
class DoctorOptions:
    """The layer to look at."""

    units: int = 250
    """Hidden size."""
    batch: int = 100
    """Batch size."""
    time: int = 1000
    """Steps in a sequence."""
    device: str = "cpu"
    """Device: cpu, cuda, cuda:1, ..."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Data type of inputs and weights."""
    attention: Literal["exp", "relu", "softplus", "sigmoid"] = "exp"
    """The paper's f_a."""
    hidden: Literal["identity", "tanh"] = "identity"
    """The paper's f_h."""
    output: Literal["identity", "tanh"] = "tanh"
    """The paper's f_o."""
    discount: bool = True
    """Forget, as the RDA does; --no-discount never forgets, as the RWA."""

    def __post_init__(self) -> None:
        for name in ("units", "batch", "time"):
            check_at_least(name, getattr(self, name), 1)


def add(parser: Parser, explain: bool) -> None:
    """The options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    add_options(parser, "options of doctor", DoctorOptions, explain)


def run(asked: argparse.Namespace, command: str) -> int:
    """Print the report; 1 where an engine that can serve gives wrong results, otherwise 0."""
    options: DoctorOptions = make(DoctorOptions, given_values(asked, DoctorOptions))
    import torch

    from rda.activations import Choices
    from rda.doctor import examine
    from rda.training.resources import find_device

    choices = Choices(options.attention, options.hidden, options.output, options.discount)
    with as_usage_errors():
        device = str(find_device(options.device))
    dtype = torch.float32 if options.dtype == "float32" else torch.bfloat16
    try:
        healthy = examine(choices, options.units, options.batch, options.time, device, dtype)
    except RuntimeError as error:
        raise UsageError(f"this size cannot be looked at: {str(error).splitlines()[0]}") from error
    return 0 if healthy else 1
