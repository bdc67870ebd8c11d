"""Training: `train` makes or continues a run, `load` gives back its model.

Both are imported at first use, because they need torch and the rest of this package does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rda.training.loading import load
    from rda.training.running import train

__all__ = ["load", "train"]

_MODULES = {"load": "rda.training.loading", "train": "rda.training.running"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'rda.training' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
