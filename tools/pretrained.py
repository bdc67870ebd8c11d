"""Make the model that comes with the package from the folder of a finished run.

    .venv/bin/python tools/pretrained.py runs/mine --file heldout.txt

The weights are those of the run's best evaluation. They are stored in bfloat16 where that changes
the bits of the text in `--file` by less than 0.001, otherwise in float32. The new folder appears
as a whole or not at all; one that is already there has to be removed first. `tools/publish.py`
then writes what the documents say about it.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from card import CARD, PACKING, Packing, render_card, write_packing
from torch import Tensor

import rda
from rda.files import write_atomically
from rda.tasks import TaskError
from rda.tasks.text import Text, pieces
from rda.training import checkpoint
from rda.training.locking import LOCK
from rda.training.manifest import MANIFEST, write_manifest
from rda.training.reading import read_text
from rda.training.record import MODEL, SEALED, Record
from rda.training.resources import find_device
from rda.training.status import FINISHED, RecordError
from rda.training.text_model import TextModel
from rda.training.thinning import thin

LARGEST_CHANGE = 0.001
"""Bits of a symbol that rounding may cost: the last digit that the documents show."""


def finished_record(run: Path) -> Record:
    """The record of a run whose model can be packed.

    Raises:
        RecordError: it has not finished, was changed since, or has no test.
    """
    record = Record(run)
    status = record.status
    if status.state != FINISHED:
        raise RecordError(f"run {record.name} is {status.state}: only a finished run is packed")
    record.verify()
    if "test_bits" not in status.test:
        raise RecordError(f"run {record.name} has no bits on a test text")
    return record


def text_model(run: Path, device: torch.device) -> TextModel:
    """The model of a run of text."""
    model = rda.load(run, device=device)
    if not isinstance(model, TextModel):
        raise RecordError(f"run {run.name} has saved no vocabulary: its model cannot write")
    return model


def measure(model: TextModel, rounded: Mapping[str, Tensor], file: str) -> Packing:
    """Let the model read a text with its weights as they are and as they would be stored."""
    paths = Text(file=file).paths()
    kind = model.vocabulary.kind
    before = read_text(model, pieces(paths, kind))
    if not before.count:
        raise TaskError(f"{file} has fewer than two symbols: there is nothing to compare")
    model.load_state_dict(rounded)
    after = read_text(model, pieces(paths, kind))
    small = abs(after.mean - before.mean) < LARGEST_CHANGE
    return Packing(
        dtype="bfloat16" if small else "float32",
        parameters=sum(weight.numel() for weight in rounded.values()),
        kind=kind,
        symbols=len(model.vocabulary),
        text=Path(file).name,
        length=before.count,
        bits=before.mean,
        bits_rounded=after.mean,
    )


def pack(run: Path, file: str, folder: Path, device: torch.device) -> Packing:
    """Make the folder; what is wrong leaves nothing behind."""
    if folder.exists():
        raise RecordError(f"{folder} is already there: remove it first")
    finished_record(run)
    model = text_model(run, device)
    weights, values = checkpoint.unpack((run / MODEL).read_bytes())
    rounded = {name: weight.bfloat16() for name, weight in weights.items()}
    packing = measure(model, rounded, file)
    stored = rounded if packing.dtype == "bfloat16" else weights
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    new.mkdir()
    try:
        copy_thinned(run, new)
        write_atomically(new / MODEL, checkpoint.pack(stored, values))
        write_packing(new, packing)
        write_manifest(new, (*SEALED, PACKING), {})
        (new / CARD).write_text(render_card(new))
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new)
        raise
    return packing


def copy_thinned(run: Path, new: Path) -> None:
    """The record of a run, without the run's weights and most of its steps."""
    for name in (*SEALED, MANIFEST):
        if (run / name).exists():
            shutil.copyfile(run / name, new / name)
    thin(new)
    (new / LOCK).unlink()


def main(arguments: list[str] | None = None) -> int:
    """Pack one run; what is wrong is one line and exit code 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("--file", required=True, help="a text to compare the bits on")
    parser.add_argument("--folder", type=Path, default=rda.PRETRAINED, help="what is made")
    parser.add_argument("--device", default="cpu", help="where the text is read")
    asked = parser.parse_args(arguments)
    try:
        packing = pack(asked.run, asked.file, asked.folder, find_device(asked.device))
    except (ValueError, OSError) as error:
        print(f"pretrained: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print(
        f"{asked.folder}: {packing.dtype}; bfloat16 changes {packing.bits:.4f} to "
        f"{packing.bits_rounded:.4f} bits"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
