"""The Recurrent Discounted Attention unit (arXiv 1705.08480) for PyTorch."""

from rda import functional
from rda.catalogue import build
from rda.cells import RDACell, RWACell
from rda.layers import RDA, RWA
from rda.scan.dispatch import EngineUnavailableError, EngineWarning
from rda.state import State

__version__ = "0.1.0"

__all__ = [
    "RDA",
    "RWA",
    "EngineUnavailableError",
    "EngineWarning",
    "RDACell",
    "RWACell",
    "State",
    "build",
    "functional",
]
