"""The runs that a choice of unit takes: learning rates, sizes and seeds on equal terms."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from rda.choosing.terms import Terms
from rda.tasks.own_sequences.source import SequenceSource
from rda.training.building import build_model
from rda.training.record import Record
from rda.training.settings import RunSettings

LARGEST_SIZE = 4096


def on_equal_terms(
    runs: Sequence[RunSettings], terms: Terms, source: SequenceSource
) -> list[RunSettings]:
    """The first runs with sizes that give all models as many weights as the first has."""
    if terms.equal == "units":
        return list(runs)
    wanted = parameters(runs[0], source)
    return [runs[0], *(_sized(run, wanted, source) for run in runs[1:])]


def parameters(run: RunSettings, source: SequenceSource) -> int:
    """Weights of a run's model."""
    with torch.device("meta"):
        model = build_model(
            run, source.input_size, source.output_size, "auto", source.understanding
        )
    return sum(parameter.numel() for parameter in model.parameters())


def _sized(run: RunSettings, wanted: int, source: SequenceSource) -> RunSettings:
    """The number of weights grows with the size, so it can be searched."""

    def with_size(size: int) -> RunSettings:
        return replace(run, recipe=replace(run.recipe, hidden_size=size))

    low, high = 1, LARGEST_SIZE
    while low < high:
        middle = (low + high) // 2
        if parameters(with_size(middle), source) < wanted:
            low = middle + 1
        else:
            high = middle
    near = [with_size(size) for size in (max(low - 1, 1), low)]
    return min(near, key=lambda one: abs(parameters(one, source) - wanted))


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
