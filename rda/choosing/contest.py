"""The runs that a choice of unit takes: learning rates, sizes and seeds on equal terms."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import torch
from torch import Tensor

from rda.choosing.terms import Terms
from rda.tasks.own_sequences.source import SequenceSource
from rda.training.building import build_model
from rda.training.record import Record
from rda.training.settings import RunSettings
from rda.training.status import STOPPED

LARGEST_SIZE = 4096
EARLY, LATE = 0.5, 0.9
"""Shares of the steps: what was reached before the first is compared with what came after the
second. Between them a schedule lets the learning rate fall, which slows every loss down."""
FALLEN = 0.01
"""A loss that fell by less than this share at the end has come to rest."""


def on_equal_terms(
    runs: Sequence[RunSettings], terms: Terms, source: SequenceSource
) -> list[RunSettings]:
    """The first runs with sizes that give all models as many weights as the first has."""
    size = runs[0].recipe.hidden_size
    return [runs[0], *(resized(run, runs[0], size, terms, source) for run in runs[1:])]


def resized(
    run: RunSettings, first: RunSettings, size: int, terms: Terms, source: SequenceSource
) -> RunSettings:
    """A run with so many hidden units, or with as many weights as the first unit then has."""
    if terms.equal == "units" or run.unit == first.unit:
        return _with_size(run, size)
    return _sized(run, parameters(_with_size(first, size), source), source)


def parameters(run: RunSettings, source: SequenceSource) -> int:
    """Weights of a run's model."""
    with torch.device("meta"):
        model = build_model(
            run, source.input_size, source.output_size, "auto", source.understanding
        )
    return sum(parameter.numel() for parameter in model.parameters())


def _sized(run: RunSettings, wanted: int, source: SequenceSource) -> RunSettings:
    """The number of weights grows with the size, so it can be searched."""
    low, high = 1, LARGEST_SIZE
    while low < high:
        middle = (low + high) // 2
        if parameters(_with_size(run, middle), source) < wanted:
            low = middle + 1
        else:
            high = middle
    near = [_with_size(run, size) for size in (max(low - 1, 1), low)]
    return min(near, key=lambda one: abs(parameters(one, source) - wanted))


def _with_size(run: RunSettings, size: int) -> RunSettings:
    return replace(run, recipe=replace(run.recipe, hidden_size=size))


def kept_bytes(run: RunSettings, source: SequenceSource) -> int:
    """Memory that one training step keeps for its backward pass, on the first batch that tests."""
    model = build_model(run, source.input_size, source.output_size, "auto", source.understanding)
    batch = next(iter(source.evaluation("test", run.recipe.batch_size)))
    found: dict[int, int] = {}

    def kept(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
        return tensor

    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(kept, lambda tensor: tensor):
        model(batch.input, lengths=batch.lengths)
    return sum(size for place, size in found.items() if place not in weights)


def tried(run: RunSettings, terms: Terms) -> list[RunSettings]:
    """One run for each learning rate."""
    return [
        replace(run, recipe=replace(run.recipe, learning_rate=rate))
        for rate in terms.learning_rates
    ]


def best(records: Sequence[Record]) -> Record:
    """The run whose best weights have the lowest loss on the validation part."""
    return min(records, key=lambda one: one.status.best.get("validation_loss", float("inf")))


def repeated(record: Record, terms: Terms) -> list[RunSettings]:
    """The same with other seeds."""
    run = record.settings
    return [
        replace(run, recipe=replace(run.recipe, seed=run.recipe.seed + i))
        for i in range(1, terms.seeds)
    ]


def longer_may_help(records: Sequence[Record]) -> str:
    """The option that ended most runs while the loss on the validation part was still falling;
    empty where most had come to rest.

    A loss is falling at the end if its lowest value lies in the last tenth of the steps, and
    clearly below the lowest of the first half.
    """
    falling = [record.status.state for record in records if _fell_to_its_end(record)]
    if 2 * len(falling) <= len(records):
        return ""
    return "--minutes" if STOPPED in falling else "--steps"


def _fell_to_its_end(record: Record) -> bool:
    rows = list(zip(*record.curve("validation_loss"), strict=True))
    last = record.status.step
    early, late, before = (
        min((loss for step, loss in rows if low * last < step <= high * last), default=inf)
        for low, high in ((0, EARLY), (LATE, 1), (0, LATE))
    )
    return late < before and late < (1 - FALLEN) * early < inf
