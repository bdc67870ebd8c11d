"""How far a forecast may be off: the errors that its model made on the validation part."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from rda.sequences.dataset import Numbers
from rda.sequences.forecasting import Backtest
from rda.training.derived import keep, kept
from rda.training.outcomes import model_and_source, sequences_of, true_forecasts
from rda.training.record import INTERVALS, Record
from rda.training.status import RecordError, is_number

LEVEL = 0.9
"""The share of values that an interval is meant to hold."""


class Intervals(NamedTuple):
    """What was kept with a run."""

    margins: Numbers
    """(horizon, columns)"""
    sealed: bool
    """False for those of an earlier version: nothing shows that they are of these weights."""


def intervals_of(record: Record) -> Numbers:
    """(horizon, columns): how far to either side of a forecast nine of ten values lie.

    A quantile of the absolute errors on the validation part, at each number of steps ahead. Read,
    or found from the data of the run and written beside its record.
    """
    found = None
    with suppress(RecordError):  # what is in doubt is found anew
        found = read_intervals(record)
    if found is not None and found.sealed:
        return found.margins
    model, source = model_and_source(record)
    validated, scored_from = sequences_of(source, "validation")
    true = true_forecasts(validated, model.understanding, scored_from)
    errors = np.abs(model.predict(validated) - true)
    _, horizon, columns = errors.shape
    margins: Numbers = np.array(
        [[_quantile(errors[:, ahead, i]) for i in range(columns)] for ahead in range(horizon)]
    )
    content = {"step": record.status.best_step, "level": LEVEL, "margins": margins.tolist()}
    keep(record.folder, INTERVALS, content)
    return margins


def read_intervals(record: Record) -> Intervals | None:
    """Those that were kept for the weights of this run; None where there are none.

    Raises:
        RecordError: they cannot be read, were changed, or are of other weights.
    """
    found = kept(record.folder, INTERVALS)
    if found is None:
        return None
    path, margins = record.folder / INTERVALS, found.content.get("margins")
    if found.content.get("step") != record.status.best_step:
        raise RecordError(f"{path} is of other weights than those of the run")
    if not _are_margins(margins):
        raise RecordError(
            f"{path} cannot be read: margins should be rows of numbers from 0, equally many in each"
        )
    return Intervals(np.array(margins, dtype=np.float64), found.sealed)


def _are_margins(value: Any) -> bool:
    rows = value if isinstance(value, list) else []
    widths = {len(row) if isinstance(row, list) else 0 for row in rows}
    return (
        len(widths) == 1
        and 0 not in widths
        and all(is_number(margin) and margin >= 0 for row in rows for margin in row)
    )


def backtest_of(record: Record, shown_before: int = 2) -> list[Backtest]:
    """What the model forecasts of the test part of the first series, column by column."""
    margins = intervals_of(record)
    model, source = model_and_source(record)
    tested, scored_from = sequences_of(source, "test")
    predicted = model.predict(tested)
    true = true_forecasts(tested, model.understanding, scored_from)
    inside = np.abs(predicted - true) <= margins
    known = np.isfinite(true)
    start, length = int(scored_from[0]), int(tested.lengths[0])
    horizon, found = source.horizon, []
    before = min(max(shown_before * horizon, length - start), start + 1)
    origins = range(start, length - 1, horizon)
    for place, (i, name) in enumerate(zip(source.forecast, source.forecast_names, strict=True)):
        levels = tested.values[:length, i]
        said = np.concatenate(
            [predicted[t, : min(horizon, length - 1 - t), place] for t in origins]
        )
        margin = np.concatenate([margins[: min(horizon, length - 1 - t), place] for t in origins])
        there = known[..., place]
        found.append(
            Backtest(
                name,
                levels[start + 1 - before : start + 1].tolist(),
                levels[start + 1 :].tolist(),
                said.tolist(),
                (said - margin).tolist(),
                (said + margin).tolist(),
                [t - start for t in origins],
                float(inside[..., place][there].mean()) if there.any() else float("nan"),
            )
        )
    return found


def _quantile(errors: Numbers) -> float:
    """With one error more than there are, so that few errors do not promise too much."""
    known = np.sort(errors[np.isfinite(errors)])
    if not len(known):
        return float("inf")
    place = int(np.ceil((len(known) + 1) * LEVEL)) - 1
    return float(known[min(place, len(known) - 1)])
