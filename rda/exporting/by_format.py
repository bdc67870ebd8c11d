"""The only entry: a module in, a checked file out."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import rda
from rda.checks import check_flag
from rda.exporting.checking import check
from rda.exporting.subject import ExportError, Form, describe
from rda.files import write_atomically
from rda.names import look_up

if TYPE_CHECKING:
    from torch import nn

FormatName = Literal["onnx", "torch"]
_FORMATS = {"onnx": "rda.exporting.onnx_file", "torch": "rda.exporting.torch_program"}
"""Modules, of which only the one that is asked for has to find its packages."""
SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}
"""What names of files usually end in, by format."""


class Exported(NamedTuple):
    """A file that was written."""

    path: Path
    difference: float
    """The largest difference from the module that was found, relative."""


def export(
    module: nn.Module,
    path: Path | str,
    to: FormatName = "onnx",
    *,
    one_step: bool = False,
    with_state: bool = False,
    with_lengths: bool = False,
) -> Exported:
    """Write a layer or a trained model as a file that runs without this package.

    The file is compared with the module on random inputs first, and written only where the two
    are equal to 1e-5. docs/export.md says what it takes and gives.

    Args:
        module: `rda.RDA`, `rda.RWA`, `rda.Recurrent` with any unit, the LSTM and GRU of
            `rda.build`, or a model of `rda.load`; float32 or float64.
        path: the file, which is replaced as a whole. It may have any name but one that ends as
            those of the other format do.
        to: "onnx" for standard operators of ONNX, or "torch" for a program of torch.export.
        one_step: a single step, without a dimension of time: the state goes in and comes out.
        with_state: the state to start from is an input too; with `one_step` it always is.
        with_lengths: the number of steps of each row of a padded batch is an input too.

    Raises:
        ExportError: the module cannot be exported like this, or the file would differ from it.
        ModuleNotFoundError: "onnx" needs the extra `rda-torch[onnx]`.
    """
    place = look_up("format", to, _FORMATS)
    form = Form(one_step, with_state, with_lengths)
    for name, flag in form._asdict().items():
        check_flag(name, flag)
    path = Path(path)
    for name, suffix in SUFFIXES.items():
        if name != to and path.suffix == suffix:
            raise ExportError(f"path should end in {SUFFIXES[to]}, or to be {name!r}, got: {path}")
    if not path.parent.is_dir():
        raise ExportError(f"path should be in a folder that exists, got: {path}")
    subject = describe(module, form)
    try:
        format = import_module(place)
    except ModuleNotFoundError as error:
        if error.name not in rda.EXTRA_PACKAGES:
            raise
        raise rda.missing_extra(error.name) from error
    content: bytes = format.written(subject, form)
    largest = check(format.runner(content, subject), module, subject, form)
    write_atomically(path, content)
    return Exported(path, largest)
