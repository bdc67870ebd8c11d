"""The Recurrent Discounted Attention unit (arXiv 1705.08480) for PyTorch."""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rda import estimators, functional, functions, tasks, training, units
    from rda.catalogue import build
    from rda.cells import RDACell, RWACell
    from rda.exporting.by_format import export
    from rda.exporting.subject import ExportError
    from rda.layers import RDA, RWA, Recurrent
    from rda.scan.dispatch import EngineUnavailableError, EngineWarning
    from rda.state import State
    from rda.training.by_name import train
    from rda.training.loading import load
    from rda.units import Unit

__version__ = "0.2.0"

__all__ = [
    "PRETRAINED",
    "RDA",
    "RWA",
    "EngineUnavailableError",
    "EngineWarning",
    "ExportError",
    "RDACell",
    "RWACell",
    "Recurrent",
    "State",
    "Unit",
    "build",
    "estimators",
    "export",
    "functional",
    "functions",
    "load",
    "tasks",
    "train",
    "training",
    "units",
]

# Imported at first use, so that the command line answers without waiting for torch.
_HOME = {
    "RDA": "rda.layers",
    "RWA": "rda.layers",
    "EngineUnavailableError": "rda.scan.dispatch",
    "EngineWarning": "rda.scan.dispatch",
    "ExportError": "rda.exporting.subject",
    "RDACell": "rda.cells",
    "RWACell": "rda.cells",
    "Recurrent": "rda.layers",
    "State": "rda.state",
    "build": "rda.catalogue",
    "export": "rda.exporting.by_format",
    "load": "rda.training.loading",
    "train": "rda.training.by_name",
    "Unit": "rda.units",
}

EXTRA_PACKAGES = {
    **dict.fromkeys(
        ("jinja2", "markupsafe", "matplotlib", "numpy", "rich", "safetensors", "tomli_w"), "cli"
    ),
    **dict.fromkeys(("onnx", "onnxruntime"), "onnx"),
    "sklearn": "sklearn",
    "aeon": "aeon",
    **dict.fromkeys(("ray", "grpc"), "ray"),
}
"""What is needed beside torch, and the extra that brings it: "cli" for training, reports and the
command, "onnx" for export, "sklearn" and "aeon" for estimators, "ray" for many runs at once."""

PRETRAINED = Path(__file__).parent / "pretrained" / "wikipedia"
"""The folder of the model of text that comes with the package, for `rda.load`. A source tree may
come without it."""


def missing_extra(package: str | None) -> ModuleNotFoundError:
    """The error that says how to install what the plain installation leaves out."""
    extra = EXTRA_PACKAGES.get(package or "", "cli")
    return ModuleNotFoundError(
        f"this needs the package {package}, which comes with: pip install 'rda-torch[{extra}]'",
        name=package,
    )


def __getattr__(name: str) -> Any:
    if name in (
        "estimators", "functional", "functions", "sequences", "tasks", "training", "units"
    ):  # fmt: skip
        return import_module(f"rda.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'rda' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_PACKAGES:
            raise
        raise missing_extra(error.name) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _AfterTorch(MetaPathFinder):
    """Imports the units right after torch, if a program imports rda first and torch later.

    They register our operators, without which torch.export.load and torch.jit.load cannot read a
    model that contains them.
    """

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                if not _is_importing():
                    import_module("rda.layers")

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def _is_importing() -> bool:
    """Whether a module of ours is what imports torch: its own imports go on after that."""
    ours = (module for name, module in [*sys.modules.items()] if name.startswith("rda."))
    specs = (getattr(module, "__spec__", None) for module in ours)
    return any(getattr(spec, "_initializing", False) for spec in specs)


if "torch" in sys.modules:
    import_module("rda.layers")
else:
    sys.meta_path.insert(0, _AfterTorch())
