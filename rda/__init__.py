"""The Recurrent Discounted Attention unit (arXiv 1705.08480) for PyTorch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rda import functional
    from rda.catalogue import build
    from rda.cells import RDACell, RWACell
    from rda.layers import RDA, RWA
    from rda.scan.dispatch import EngineUnavailableError, EngineWarning
    from rda.state import State

__version__ = "0.2.0"

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

# Found at first use, so that the command line answers without waiting for torch.
_HOME = {
    "RDA": "rda.layers",
    "RWA": "rda.layers",
    "EngineUnavailableError": "rda.scan.dispatch",
    "EngineWarning": "rda.scan.dispatch",
    "RDACell": "rda.cells",
    "RWACell": "rda.cells",
    "State": "rda.state",
    "build": "rda.catalogue",
}


def __getattr__(name: str) -> Any:
    if name == "functional":
        return import_module("rda.functional")
    if name not in _HOME:
        raise AttributeError(f"module 'rda' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
