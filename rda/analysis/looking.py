"""Lets the model of a run read one sequence, and looks inside its unit."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rda.analysis.inspection import SEED, STEPS_SHOWN, Inspection, save
from rda.analysis.internals import look_inside
from rda.layers import AveragingLayer
from rda.training.data_facts import refuse_other_data
from rda.training.loading import load
from rda.training.record import Record
from rda.training.running import read_files
from rda.training.status import RecordError
from rda.training.thinning import evenly

UNITS_SHOWN = 48
TELLING = ("alternating", "copy", "multicopy")


def inspect_run(folder: Path | str, seed: int = SEED) -> Inspection:
    """Let the model of a run read one sequence of its task, and look inside.

    Raises:
        RecordError: the run has no weights, or a unit without attention, or its data has changed.
    """
    model = load(folder)
    assert model.record is not None
    settings = model.record.settings
    if not isinstance(model.unit, AveragingLayer):
        raise RecordError(f"{settings.unit} has no attention to look at: give a run of RDA or RWA")
    device = torch.device("cpu")
    source = settings.task.open(device, read_files(settings, progress=False))
    refuse_other_data(model.record.name, model.facts, source)
    batch = source.batch(torch.Generator(device).manual_seed(seed), 1)
    length = None if batch.lengths is None else int(batch.lengths[0])
    input = batch.input[:length]
    with torch.no_grad():
        prediction, _ = model(input)
    inside = look_inside(model.unit, model.encode(input))
    discount, share = inside.log_discount[:, 0].exp(), inside.new_share[:, 0]
    classes = prediction.shape[-1] > 1
    return Inspection(
        task=settings.task.name,
        unit=settings.unit,
        symbols=_symbols(settings.task, input),
        targets=batch.target.flatten().tolist() if classes else [],
        answers=prediction.argmax(-1).flatten().tolist() if classes else [],
        discount=_rounded(discount.mean(-1)),
        new_share=_rounded(share.mean(-1)),
        highest_attention=_rounded(inside.log_attention[:, 0].amax(-1)),
        highest_weight=_rounded(inside.log_weight[:, 0].amax(-1)),
        discount_of_units=_of_units(discount, share),
        new_share_of_units=_of_units(share, share),
    )


def keep_inspection(folder: Path) -> None:
    """Save what the first run of a unit looked at, where the task makes that telling."""
    settings = Record(folder).settings
    has_attention = settings.unit not in ("LSTM", "GRU")
    if has_attention and settings.task.name in TELLING and settings.recipe.seed == 0:
        save(folder, inspect_run(folder))


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
