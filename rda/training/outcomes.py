"""What a trained model answers where the answers are known, beside the true ones."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rda.sequences.dataset import Counts, Numbers, Sequences, SequencesError
from rda.sequences.forecasting import blocks, next_values
from rda.sequences.understanding import Understanding
from rda.tasks.own_sequences.source import SequenceSource
from rda.training.derived import keep, kept
from rda.training.loading import load
from rda.training.own_model import OwnModel
from rda.training.record import OUTCOMES, Record
from rda.training.status import RecordError, is_count, is_number

NO_SUCH_CLASS = -1.0
"""A true class that a model was not trained on: whatever it says is wrong."""


class Outcomes(NamedTuple):
    """Answers, true and predicted: classes by number, or numbers."""

    true: Numbers
    predicted: Numbers
    piece: Counts
    """The sequence that each answer belongs to, so that answers of one are not taken for many; of
    a forecast, the stretch of time."""
    column: Counts
    """Which of the columns that are forecast it is; 0 where there is one target."""


def outcomes_of(record: Record) -> Outcomes:
    """Those of the test part: read, or answered by the model and kept beside the record."""
    found = None
    with suppress(RecordError):  # what is in doubt is answered anew
        found = kept(record.folder, OUTCOMES)
    if found is not None and (found.sealed or record.status.thinned):
        return _from_lists(found.content, record.folder / OUTCOMES)
    model, source = model_and_source(record)
    tested, scored_from = sequences_of(source, "test")
    outcomes = outcomes_on(model, tested, scored_from)
    keep(
        record.folder, OUTCOMES, {name: part.tolist() for name, part in outcomes._asdict().items()}
    )
    return outcomes


def model_and_source(record: Record) -> tuple[OwnModel, SequenceSource]:
    """The trained model of a run of people's own sequences, and its data."""
    source = record.settings.task.open(torch.device("cpu"))
    model = load(record.folder)
    assert isinstance(source, SequenceSource)
    assert isinstance(model, OwnModel)
    return model, source


def _from_lists(found: Mapping[str, Any], path: Path) -> Outcomes:
    """Those of earlier versions have no columns."""
    parts = [found.get(name) for name in ("true", "predicted", "piece")]
    lists = [part for part in parts if isinstance(part, list) and all(map(is_number, part))]
    lists += [found.get("column", [0] * len(lists[0]))] if lists else []
    whole = len(lists) == len(Outcomes._fields) and isinstance(lists[-1], list)
    if not whole or len(set(map(len, lists))) > 1 or not all(map(is_count, lists[2] + lists[3])):
        raise RecordError(f"{path} cannot be read: it should be lists of as many numbers each")
    true, predicted, piece, column = lists
    return Outcomes(
        np.array(true, dtype=np.float64),
        np.array(predicted, dtype=np.float64),
        np.array(piece, dtype=np.int64),
        np.array(column, dtype=np.int64),
    )


def sequences_of(source: SequenceSource, part: str) -> tuple[Sequences, Counts]:
    """The sequences of a part, and how many steps of each are only read. Series of a forecast are
    whole up to where the part ends."""
    pieces, members = source.divided.parts[part], source.divided.members[part]
    found = source.sequences.chosen(members)
    if source.problem != "forecast":
        return found, np.zeros(len(found), dtype=np.int64)
    lengths = pieces.limits - pieces.starts
    kept = found.step_numbers < np.repeat(lengths, found.lengths)
    return replace(found, values=found.values[kept], lengths=lengths, target=None), (
        pieces.scored_from
    )


def outcomes_on(
    model: OwnModel, sequences: Sequences, scored_from: Counts | None = None
) -> Outcomes:
    """What a model says of sequences whose answers are known.

    Raises:
        SequencesError: they have no answers, or those of another problem.
    """
    told = model.understanding
    trues, answers, pieces, columns, first = [], [], [], [], 0
    for some, raw in model.answers(sequences):
        read = None if scored_from is None else scored_from[first : first + len(some)]
        true = _true(some, told, read)
        predicted = raw.argmax(-1).astype(np.float64) if told.classes else model.meaning(raw, some)
        count = len(some)
        piece = np.arange(first, first + count)
        if told.every_step:
            piece = np.repeat(piece, some.lengths)
        if told.problem == "forecast":
            piece = blocks(some.step_numbers, piece, told.horizon)
            piece = np.broadcast_to(piece[:, None, None], true.shape)
        there = np.isfinite(true) & np.isfinite(predicted)
        column = np.arange(true.shape[-1]) if told.problem == "forecast" else 0
        columns.append(np.broadcast_to(column, true.shape)[there])
        trues.append(true[there])
        answers.append(predicted[there])
        pieces.append(piece[there])
        first += count
    return joined(trues, answers, pieces, columns)


def true_forecasts(
    sequences: Sequences, told: Understanding, scored_from: Counts | None
) -> Numbers:
    """(steps, horizon, columns): the values after each step; NaN where nothing is scored."""
    names = [channel.name for channel in sequences.channels]
    columns = [names.index(name) for name in told.target]
    true = next_values(sequences.values[:, columns], sequences.lengths, told.horizon)
    if scored_from is not None:
        true[sequences.step_numbers < np.repeat(scored_from, sequences.lengths)] = np.nan
    return true


def _true(some: Sequences, told: Understanding, scored_from: Counts | None) -> Numbers:
    """The answers of some sequences, as the model's are: NaN where there is none."""
    if told.problem == "forecast":
        return true_forecasts(some, told, scored_from)
    target = some.target
    if target is None:
        raise SequencesError(f"there is no column {told.target[0]!r} with the answers")
    if target.every_step != told.every_step and len(some) > 1:
        raise SequencesError(
            f"{told.target[0]} should have an answer for each "
            f"{'step' if told.every_step else 'sequence'}"
        )
    values = target.values
    if target.every_step != told.every_step:  # a single sequence can be understood either way
        values = values if told.every_step else values[:1]
    if not told.classes:
        if target.classes:
            raise SequencesError(f"{told.target[0]} should be numbers, as in training")
        return values
    if not target.classes:
        raise SequencesError(f"{told.target[0]} should be labels, as in training")
    index = {word: float(place) for place, word in enumerate(told.classes)}
    places = np.array([index.get(word, NO_SUCH_CLASS) for word in target.classes] + [np.nan])
    known = np.isfinite(values)
    return places[np.where(known, values, len(target.classes)).astype(np.int64)]


def joined(
    true: list[Numbers],
    predicted: list[Numbers],
    piece: list[Counts],
    column: list[Counts] | None = None,
) -> Outcomes:
    """Outcomes from some of them at a time, their pieces counted from 0; of one target without
    `column`."""
    numbered = np.unique(np.concatenate(piece), return_inverse=True)[1]
    trues = np.concatenate(true)
    columns = np.concatenate(column) if column else np.zeros(len(trues))
    return Outcomes(
        trues, np.concatenate(predicted), numbered.astype(np.int64), columns.astype(np.int64)
    )
