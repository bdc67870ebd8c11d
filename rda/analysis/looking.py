"""Lets the model of a run read one sequence, and looks inside its unit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rda.analysis.inspection import SEED, STEPS_SHOWN, Inspection, save
from rda.analysis.internals import look_inside
from rda.layers import AveragingLayer
from rda.sequences import SequencesError
from rda.training.data_facts import refuse_other_data
from rda.training.loading import load
from rda.training.model import SequenceModel
from rda.training.own_model import OwnModel
from rda.training.record import Record
from rda.training.running import read_files
from rda.training.settings import RunSettings, usual_size
from rda.training.status import RecordError
from rda.training.thinning import evenly

UNITS_SHOWN = 48
INPUTS_SHOWN = 6
"""Columns of people's own sequences that are drawn above what the unit did with them."""


def inspect_run(folder: Path | str, seed: int = SEED) -> Inspection:
    """Let the model of a run read one sequence of its task, and look inside.

    Raises:
        RecordError: the run has no weights, or a unit without attention, or its data has changed.
    """
    model, settings = _with_attention(folder)
    assert model.record is not None
    device = torch.device("cpu")
    source = settings.task.open(device, read_files(settings, progress=False))
    refuse_other_data(model.record.name, model.facts, source)
    batch = source.batch(torch.Generator(device).manual_seed(seed), 1)
    length = None if batch.lengths is None else int(batch.lengths[0])
    input = batch.input[:length]
    with torch.no_grad():
        prediction, _ = model(input)
    classes = prediction.shape[-1] > 1 and not batch.target.is_floating_point()
    return _inspection(
        model,
        input,
        symbols=_symbols(settings.task, input),
        targets=batch.target.flatten().tolist() if classes else [],
        answers=prediction.argmax(-1).flatten().tolist() if classes else [],
    )


def inspect_row(folder: Path | str, data: Any, row: int = 0) -> Inspection:
    """Let the model of a run of people's own sequences read one of other data, and look inside.

    Args:
        folder: the folder of the run.
        data: all that `rda.sequences.read` takes.
        row: the number of the sequence in the data, from 0.

    Raises:
        RecordError: the run has no weights, a unit without attention, or another task.
        SequencesError: the data cannot be read, or has no such row.
    """
    model, settings = _with_attention(folder)
    if not isinstance(model, OwnModel):
        raise RecordError(
            f"run {Path(folder).name} was trained on {settings.task.name}: rows of --data are for "
            "runs of rda train --data"
        )
    told = model.understanding
    sequences = told.aligned(model.read(data))
    if not 0 <= row < len(sequences):
        raise SequencesError(f"row should be from 0 to {len(sequences) - 1}, got {row}")
    one = sequences.chosen(np.array([row]))
    inputs = told.inputs(one)
    read = torch.from_numpy(inputs)[:, None]
    found = _inspection(model, read, symbols=[], targets=[], answers=[])
    said = model.predict(one)
    answer = str(said[0]) if told.problem in ("label", "number") else ""
    return replace(
        found,
        sequence=one.ids[0],
        answer=f"{told.target[0]}: {answer}" if answer else "",
        inputs={
            channel.name: _rounded(torch.from_numpy(one.values[:, i]))
            for i, channel in enumerate(one.channels[:INPUTS_SHOWN])
            if not channel.categories
        },
    )


def _with_attention(folder: Path | str) -> tuple[SequenceModel, RunSettings]:
    model = load(folder)
    assert model.record is not None
    settings = model.record.settings
    if not isinstance(model.unit, AveragingLayer):
        raise RecordError(f"{settings.unit} has no attention to look at: give a run of RDA or RWA")
    return model, settings


def _inspection(
    model: SequenceModel,
    input: Tensor,
    symbols: list[str],
    targets: list[int],
    answers: list[int],
) -> Inspection:
    """What a model's unit did with one sequence, (time, 1, ...)."""
    assert model.record is not None
    assert isinstance(model.unit, AveragingLayer)
    inside = look_inside(model.unit, model.encode(input))
    discount, share = inside.log_discount[:, 0].exp(), inside.new_share[:, 0]
    return Inspection(
        task=model.record.settings.task.name,
        unit=model.record.settings.unit,
        symbols=symbols,
        targets=targets,
        answers=answers,
        discount=_rounded(discount.mean(-1)),
        new_share=_rounded(share.mean(-1)),
        highest_attention=_rounded(inside.log_attention[:, 0].amax(-1)),
        highest_weight=_rounded(inside.log_weight[:, 0].amax(-1)),
        discount_of_units=_of_units(discount, share),
        new_share_of_units=_of_units(share, share),
        final_share=_rounded(inside.shares(len(share) - 1)[:, 0].mean(-1)),
    )


def keep_inspection(folder: Path) -> None:
    """Save what a unit looked at where it is kept for the report."""
    if is_kept(Record(folder).settings):
        save(folder, inspect_run(folder))


def is_kept(settings: RunSettings) -> bool:
    """Whether the report shows what the unit of such a run looked at: of every unit with attention
    the first run of multiple sequence copy with the usual settings, and of each length of the
    alternating task."""
    if settings.unit in ("LSTM", "GRU") or settings.recipe.seed != 0:
        return False
    copies = settings.task.name == "multicopy" and usual_size(settings) is not None
    return copies or settings.task.name == "alternating"


def _symbols(task: Any, input: Tensor) -> list[str]:
    if not task.symbolic:
        return []
    names = {getattr(task, "blank", None): "\u00b7", getattr(task, "recall", None): "?"}
    return [names.get(symbol, str(symbol)) for symbol in input.flatten().tolist()]


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def _of_units(values: Tensor, ordered_by: Tensor) -> list[list[float]]:
    """Some units, evenly taken after ordering them by how much they attend to new steps."""
    chosen = evenly(ordered_by.mean(0).argsort().tolist(), UNITS_SHOWN)
    return [[round(value, 3) for value in values[:STEPS_SHOWN, unit].tolist()] for unit in chosen]
