"""Small runs for the tests of training."""

from dataclasses import replace

from rda.settings import Limits, Recipe
from rda.tasks.addition import Addition
from rda.tasks.classify_length import ClassifyLength
from rda.tasks.copying import Copy, MultiCopy
from rda.tasks.wikipedia import Wikipedia
from rda.training import running
from rda.training.settings import RunSettings

TINY = Recipe(hidden_size=8, batch_size=4)
TEXT = {"enwik8": bytes((7 * i * i + i // 3) % 11 + 97 for i in range(3000))}

TINY_RUNS = {
    "addition": RunSettings(Addition(length=6), "RDA-exp-tanh", TINY),
    "classify-length": RunSettings(
        ClassifyLength(longest=9), "RWA", replace(TINY, learn_initial_state=True, dropout=0.25)
    ),
    "multicopy": RunSettings(MultiCopy(copies=2, symbols=2, alphabet=3), "GRU", TINY),
    "copy": RunSettings(Copy(symbols=2, alphabet=3, delay=4), "LSTM", TINY),
    "wikipedia": RunSettings(
        Wikipedia(segment=7, embedding=3, characters=2000, evaluation_streams=3),
        "RDA-sigmoid-id",
        replace(TINY, evaluate_every=4, dropout=0.3, weight_dropout=0.2, restart_probability=0.25),
    ),
}


class Silent:
    """Hears everything, says nothing."""

    def __init__(self):
        self.said = []
        self.steps = []

    def say(self, line):
        self.said.append(line)

    def began(self, step):
        pass

    def stepped(self, step, row, seconds):
        self.steps.append(step)

    def sampled(self, step, text):
        pass

    def recorded(self, step, row):
        pass


def files_for(settings):
    return TEXT if settings.task.name == "wikipedia" else None


def run_once(
    folder, settings, *, listener=None, force=False, checkpoint_seconds=60.0, prepare=None
):
    """Train `settings` in `folder`, from wherever it stands; `prepare` sees the stepper first."""
    build = running.build_stepper

    def build_prepared(*arguments):
        stepper = build(*arguments)
        if prepare is not None:
            prepare(stepper)
        return stepper

    running.build_stepper = build_prepared
    try:
        record = running.train(
            settings,
            folder,
            device="cpu",
            files=files_for(settings),
            force=force,
            checkpoint_minutes=checkpoint_seconds / 60,
            listener=listener or Silent(),
        )
    finally:
        running.build_stepper = build
    return record.status


def with_steps(settings, steps, **limits):
    return replace(settings, limits=Limits(steps=steps, **limits))
