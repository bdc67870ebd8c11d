"""The scan over plain tensors, for modules of your own.

A layer is a projection and a scan:

    projected = F.linear(x, weight_ih, bias)                    # (time, batch, 4 * hidden)
    output, (r, l) = rda.functional.scan(projected, weight_hh, choices=Choices("softplus"))

The engine can also do the projection: `scan(x, weight_hh, input_weight=weight_ih, bias=bias)`.
"""

from rda.activations import Choices, log_from_weight
from rda.equations import LogState, PlainState, weight_from_log
from rda.scan.dispatch import scan, select

__all__ = [
    "Choices",
    "LogState",
    "PlainState",
    "log_from_weight",
    "scan",
    "select",
    "weight_from_log",
]
