"""What a trained model answers on the test part of its data, kept beside the record of its run."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rda.files import write_atomically
from rda.sequences.dataset import Counts, Numbers
from rda.tasks.own_sequences.source import SequenceSource
from rda.training.loading import load
from rda.training.record import Record

OUTCOMES = "outcomes.json"


class Outcomes(NamedTuple):
    """Answers of the test part, true and predicted: classes by number, or numbers."""

    true: Numbers
    predicted: Numbers
    piece: Counts
    """The sequence that each answer belongs to, so that answers of one are not taken for many; of
    a forecast, the stretch of time."""


def outcomes_of(record: Record) -> Outcomes:
    """Read them, or let the model answer and write them."""
    path, step = record.folder / OUTCOMES, record.status.best_step
    if path.is_file():
        found = json.loads(path.read_text())
        if found.get("step") == step:
            return _from_lists(found)
    outcomes = _answered(record)
    content = {"step": step, **{name: part.tolist() for name, part in outcomes._asdict().items()}}
    write_atomically(path, json.dumps(content).encode())
    return outcomes


def read_outcomes(folder: Path) -> Outcomes:
    """Those that were written."""
    return _from_lists(json.loads((folder / OUTCOMES).read_text()))


def _from_lists(found: dict[str, Any]) -> Outcomes:
    return Outcomes(
        np.array(found["true"], dtype=np.float64),
        np.array(found["predicted"], dtype=np.float64),
        np.array(found["piece"], dtype=np.int64),
    )


@torch.no_grad()
def _answered(record: Record) -> Outcomes:
    settings = record.settings
    source = settings.task.open(torch.device("cpu"))
    assert isinstance(source, SequenceSource)
    model = load(record.folder)
    trues, answers, pieces, first = [], [], [], 0
    for batch in source.evaluation("test", settings.recipe.batch_size):
        prediction, _ = model(batch.input, lengths=batch.lengths)
        there = source.is_answer(batch.target)
        shape, count = batch.target.shape, batch.input.shape[1]
        predicted = prediction.argmax(-1) if source.classes else prediction.view(shape)
        place = torch.arange(first, first + count)
        if source.problem == "forecast":
            place = source.blocks(torch.arange(len(batch.input))[:, None], place)[..., None]
        place = place.expand(shape)
        trues.append(batch.target[there].double().numpy())
        answers.append(predicted[there].double().numpy())
        pieces.append(place[there].numpy())
        if not source.classes:
            scale, mean = source.units(batch.target, there)
            trues[-1] = trues[-1] * scale + mean
            answers[-1] = answers[-1] * scale + mean
        first += count
    return joined(trues, answers, pieces)


def joined(true: list[Numbers], predicted: list[Numbers], piece: list[Counts]) -> Outcomes:
    """Outcomes from some of them at a time, their pieces counted from 0."""
    numbered = np.unique(np.concatenate(piece), return_inverse=True)[1]
    return Outcomes(np.concatenate(true), np.concatenate(predicted), numbered.astype(np.int64))
