"""A trained model from the folder of its run."""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import rda
from rda.files import read_plain
from rda.sequences.understanding import Understanding
from rda.tasks.vocabulary import Vocabulary
from rda.training import checkpoint
from rda.training.building import build_model
from rda.training.checkpoint import CheckpointError
from rda.training.data_facts import recorded_facts
from rda.training.model import SequenceModel, fits
from rda.training.record import CHECKPOINTS, MODEL, Record
from rda.training.settings import RunSettings
from rda.training.status import RecordError
from rda.training.stepper import without_prefix


def load(
    folder: Path | str, *, device: torch.device | str = "cpu", engine: str = "auto"
) -> SequenceModel:
    """The trained model of a run, ready for inference: `prediction, state = model(input)`.

    The weights are those of the best evaluation, or of the last step where there was none. What
    the model was trained on is in `model.record.settings`, how that ended in
    `model.record.status`. The model is in evaluation mode; `model.train()` changes that.

    Args:
        folder: the folder of the run; `rda.PRETRAINED` is the model that comes with the package.
        device: where the model shall be.
        engine: the engine of the unit, or "auto".

    Raises:
        RecordError: the folder is not a run, has no weights yet, or was damaged.
    """
    record = _packaged_record() if Path(folder) == rda.PRETRAINED else Record(folder)
    weights, data = _weights(record)
    model = model_of(record.settings, weights, data, engine, record.name)
    model.record = record
    return model.to(device).eval()


def model_of(
    settings: RunSettings,
    weights: Mapping[str, Tensor],
    data: Mapping[str, Any],
    engine: str = "auto",
    name: str = "in memory",
) -> SequenceModel:
    """The model of a run from its parts: settings, weights and facts of its data."""
    try:
        inputs, answers = _sizes(weights)
        known = _vocabulary(name, data, inputs) or _understanding(name, data, inputs)
        parts = settings, inputs, answers, engine, known
        with torch.device("meta"):  # settings may ask for more memory than there is
            fit = fits(build_model(*parts), weights)
    except (LookupError, RuntimeError):
        fit = False
    if not fit:
        raise RecordError(f"the weights of run {name} do not fit its settings")
    model = build_model(*parts)
    model.load_state_dict(weights)
    model.facts = data
    return model.eval()


def _sizes(weights: Mapping[str, Tensor]) -> tuple[int, int]:
    """Inputs and answers of the model that has these weights."""
    encoder = weights.get("encoder.weight")
    inputs = weights["unit.weight_ih_l0"].shape[1] if encoder is None else encoder.shape[0]
    return inputs, weights["readout.weight"].shape[0]


def _packaged_record() -> Record:
    """The record of the model that comes with the package, where all of it is as it was packed."""
    if not rda.PRETRAINED.is_dir():
        raise RecordError(
            "this installation comes without a pretrained model: give a run of rda train text or "
            "rda train wikipedia"
        )
    try:
        record = Record(rda.PRETRAINED)
        damage = ", ".join(record.damaged())
    except RecordError as error:
        damage = str(error)
    if damage:
        raise RecordError(
            f"the model that comes with rda is damaged ({damage}): install rda-torch again"
        )
    return record


def _vocabulary(name: str, data: Mapping[str, Any], size: int) -> Vocabulary | None:
    """That of a text; None where the run read something else."""
    if "vocabulary" not in data:
        return None
    try:
        found = Vocabulary.from_facts(data["vocabulary"])
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"the vocabulary of run {name} cannot be read") from error
    if len(found) != size:
        raise RecordError(f"the vocabulary of run {name} does not fit its weights")
    return found


def _understanding(name: str, data: Mapping[str, Any], size: int) -> Understanding | None:
    """That of people's own sequences; None where the run read something else."""
    if "sequences" not in data:
        return None
    try:
        found = Understanding.from_facts(data["sequences"])
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"what run {name} knew of its data cannot be read") from error
    if found.preparation.width != size:
        raise RecordError(f"what run {name} knew of its data does not fit its weights")
    return found


def _weights(record: Record) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    """Weights and facts about the data: from the model's own file; where that is damaged, from
    the last good checkpoint."""
    if not record.verify(tolerated=[MODEL]):
        with suppress(OSError, CheckpointError):
            weights, values = checkpoint.unpack(read_plain(record.folder / MODEL))
            return weights, recorded_facts(values)
    try:
        found, _ = checkpoint.load_latest(record.folder / CHECKPOINTS, remove_bad=False)
    except (CheckpointError, OSError) as error:
        raise RecordError(f"run {record.name} has no weights: {error}") from error
    if found is None and record.status.thinned:
        raise RecordError(f"run {record.name} was recorded without its weights")
    if found is None:
        yet = "" if record.status.has_saved else " yet"
        raise RecordError(
            f"run {record.name} has no weights{yet}: neither {MODEL} nor a checkpoint"
        )
    if record.status.ended:
        warnings.warn(
            f"{record.folder / MODEL} is missing or changed: the weights are those of the "
            f"checkpoint of step {found.step}",
            stacklevel=3,
        )
    weights = without_prefix("best.", found.tensors) or without_prefix("model.", found.tensors)
    return weights, recorded_facts(found.values)
