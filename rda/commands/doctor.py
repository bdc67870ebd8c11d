"""rda doctor: which engine runs here, why, and whether it is right."""

from dataclasses import dataclass
from typing import Literal

from rda.commands.arguments import UsageError, parse
from rda.tasks.settings import check_at_least

DESCRIPTION = """\
Print what this machine can run, where compiled code is kept, which engine would serve, and whether
each engine is right: its outputs, states and gradients are compared with the reference in float64.
If compiling the CPU kernel failed before, it is tried again.

Examples: rda doctor; rda doctor --units 64 --batch 8; rda doctor --attention softplus;
rda doctor --device cuda --dtype bfloat16 --units 1800\
"""


@dataclass(frozen=True)
class DoctorArguments:
    """The work to look at."""

    units: int = 250
    """Hidden size."""
    batch: int = 100
    """Rows."""
    time: int = 1000
    """Steps."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, ..."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of inputs and weights."""
    attention: Literal["exp", "relu", "softplus", "sigmoid"] = "exp"
    """f_a."""
    hidden: Literal["identity", "tanh"] = "identity"
    """f_h."""
    output: Literal["identity", "tanh"] = "tanh"
    """f_o."""
    discount: bool = True
    """Forget as the RDA does; without, never, as the RWA."""

    def __post_init__(self) -> None:
        for name in ("units", "batch", "time"):
            check_at_least(name, getattr(self, name), 1)


def run(given: list[str]) -> int:
    """Print the report; 1 where an engine that can serve gives wrong results, otherwise 0."""
    asked = parse(DoctorArguments(), "rda doctor", given, DESCRIPTION)
    import torch

    from rda.activations import Choices
    from rda.commands.training import usable_device
    from rda.doctor import examine

    choices = Choices(asked.attention, asked.hidden, asked.output, asked.discount)
    device = str(usable_device(asked.device))
    try:
        dtype = torch.float32 if asked.dtype == "float32" else torch.bfloat16
        healthy = examine(choices, asked.units, asked.batch, asked.time, device, dtype)
    except RuntimeError as error:
        raise UsageError(f"this size cannot be looked at: {str(error).splitlines()[0]}") from error
    return 0 if healthy else 1
