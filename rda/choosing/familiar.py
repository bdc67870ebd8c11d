"""How much of some data a model was trained on, and how good it is on the rest, in words."""

from typing import Any

import numpy as np

from rda.choosing.advice import score_name
from rda.choosing.entries import entry_of
from rda.sequences.dataset import Sequences
from rda.sequences.preparing import words_from
from rda.sequences.seen import SEEN, seen_sequences, seen_steps
from rda.training.outcomes import Outcomes, outcomes_on
from rda.training.own_model import OwnModel
from rda.training.status import RecordError
from rda.wording import counted

UNKNOWN = "Whether it was trained on some of this is not known: its run is of an earlier version."


def familiar(model: OwnModel, sequences: Sequences, is_same: bool) -> list[str]:
    """How much of the data was part of training, and how good the model is on the rest."""
    if SEEN not in model.facts:
        return [] if is_same else [UNKNOWN]
    is_forecast = model.understanding.problem == "forecast"
    digests = _digests(model.facts[SEEN], 2 if is_forecast else 1)
    if is_forecast:
        return _familiar_steps(model, sequences, digests)
    seen = seen_sequences(sequences, *digests)
    if not len(seen):
        return []
    if len(seen) == len(sequences):
        return [f"All {counted(len(seen), 'sequence')} were part of its training."]
    others = np.setdiff1d(np.arange(len(sequences)), seen)
    found = _scored(model, outcomes_on(model, sequences.chosen(others)))
    return [
        f"{len(seen):,} of {counted(len(sequences), 'sequence')} were part of its training; on the "
        f"{counted(len(others), 'other')}: {found}."
    ]


def _digests(given: Any, count: int) -> tuple[str, ...]:
    try:
        found = words_from(given)
    except ValueError as error:
        raise RecordError(f"what the model was trained on cannot be read: {error}") from error
    if len(found) != count:
        raise RecordError(f"what the model was trained on should be {count} texts")
    return found


def _familiar_steps(model: OwnModel, sequences: Sequences, digests: tuple[str, ...]) -> list[str]:
    """Of a forecast: stretches of steps, and what comes after the last of them."""
    seen = seen_steps(sequences, *digests)
    count = sum(one.steps for one in seen)
    if not count:
        return []
    scored_from = np.array([max(one.end - 1, 0) for one in seen])
    found = _scored(model, outcomes_on(model, sequences, scored_from))
    steps = counted(len(sequences.values), "step")
    return [f"At least {count:,} of {steps} were part of its training; after them: {found}."]


def _scored(model: OwnModel, outcomes: Outcomes) -> str:
    """The score in words."""
    told = model.understanding
    if not len(outcomes.true):
        return "nothing to score"
    score = entry_of("", [outcomes], bool(told.classes), scales=told.scales).score
    return f"{score_name(told.metric)} {score}"
