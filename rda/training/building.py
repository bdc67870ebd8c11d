"""From settings to task, model and optimiser as they are before the first step."""

import threading
from collections.abc import Mapping
from typing import Any

import torch

from rda.sequences.understanding import Understanding
from rda.tasks import Source
from rda.tasks.first_batch import check_first_batch
from rda.tasks.registry import is_of_package
from rda.tasks.streams import Streams
from rda.tasks.vocabulary import Vocabulary
from rda.training.model import SequenceModel
from rda.training.own_model import OwnModel
from rda.training.seeds import seed_from
from rda.training.settings import RunSettings
from rda.training.stepper import Stepper
from rda.training.team import ALONE, Team
from rda.training.text_model import TextModel

ROWS_HELD = 64
"""Number of steps whose metrics stay on a GPU before they are copied to the host."""
_drawing = threading.RLock()
"""Weights are drawn from torch's own generator, which all threads share."""


def build_stepper(
    settings: RunSettings,
    device: torch.device,
    engine: str = "auto",
    files: Mapping[str, bytes] | None = None,
    team: Team = ALONE,
    accumulate: int = 1,
) -> Stepper:
    """Task, model and optimiser before the first step; `files` holds the task's data set."""
    recipe = settings.recipe
    source = settings.task.open(device, files)
    source.check(recipe)
    if type(source) is Source and not is_of_package(type(settings.task)):
        check_first_batch(settings.task, recipe.batch_size, device)
    with _drawing, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_from("weights", recipe.seed))
        sizes = source.input_size, source.output_size
        model = build_model(settings, *sizes, engine, _known(source))
        model = model.to(device)
    generator = torch.Generator(device).manual_seed(seed_from("batches", recipe.seed))
    room = 1 if device.type == "cpu" else ROWS_HELD
    return Stepper(source, model, recipe, generator, room, team=team, accumulate=accumulate)


def build_model(
    settings: RunSettings,
    input_size: int,
    output_size: int,
    engine: str = "auto",
    known: Vocabulary | Understanding | None = None,
) -> SequenceModel:
    """The model of a run; the sizes are the data's where the task does not know them.

    With the vocabulary of a text it is one that can write, with the understanding of people's own
    sequences one that can be used on others.
    """
    task, recipe = settings.task, settings.recipe
    options: dict[str, Any] = {
        "embedding_size": task.embedding_size,
        "learn_initial_state": recipe.learn_initial_state,
        "initial_state_deviation": recipe.initial_state_deviation,
        "gru_gate_bias": recipe.gru_gate_bias,
        "engine": engine,
    }
    kind: type[SequenceModel] = SequenceModel
    if isinstance(known, Vocabulary):
        kind, options["vocabulary"] = TextModel, known
    elif isinstance(known, Understanding):
        del options["embedding_size"]
        kind, options["understanding"] = OwnModel, known
    else:
        options |= {
            "input_size": input_size,
            "output_size": output_size,
            "symbolic": task.symbolic,
            "reads_every_step": task.reads_every_step,
        }
    with _drawing:
        return kind(settings.unit, recipe.hidden_size, **options)


def _known(source: Source) -> Vocabulary | Understanding | None:
    if isinstance(source, Streams):
        return source.vocabulary
    facts = source.facts()
    return Understanding.from_facts(facts["sequences"]) if "sequences" in facts else None
