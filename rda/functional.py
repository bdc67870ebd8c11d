"""For people who bring their own modules: the scan over plain tensors.

A layer of one's own is a projection and a scan:

    projected = F.linear(x, weight_ih, bias)                    # (time, batch, 4 * hidden)
    output, (r, l) = rda.functional.scan(projected, weight_hh, choices=Choices("softplus"))

or, with the projection left to the engine, `scan(x, weight_hh, input_weight=weight_ih, bias=bias)`.
"""

from rda.activations import Choices
from rda.equations import LogState, PlainState, log_from_weight, weight_from_log
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
