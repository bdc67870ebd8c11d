"""Training on a GPU: it learns, records every step, and resumes where it stopped."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from rda.labels import COMPARED
from rda.settings import Limits, Recipe
from rda.tasks.vocabulary import Vocabulary
from rda.training import running
from rda.training.building import build_stepper
from rda.training.listening import Quiet
from rda.training.loop import run_training
from rda.training.one_step import one_step
from rda.training.precision import matmul_precision
from rda.training.record import Record
from rda.training.run import Run
from rda.training.settings import small_settings, with_changes
from rda.training.status import FAILED, FINISHED
from rda.training.text_model import TextModel


def run_once(folder, settings, prepare=None):
    if prepare is None:
        return running.train(settings, folder, device="cuda").status
    stepper = build_stepper(settings, torch.device("cuda"))
    prepare(stepper)
    with Run(folder, settings, stepper.source) as run:
        return run_training(run, stepper, Quiet())


@pytest.mark.parametrize("unit", COMPARED)
def test_every_unit_learns_and_every_step_is_recorded(unit, tmp_path):
    settings = small_settings("multicopy", unit)
    settings = replace(settings, limits=Limits(steps=150, stop_at="never"))
    assert run_once(tmp_path / "run", settings).state == FINISHED
    steps, losses = Record(tmp_path / "run").curve("loss")
    assert steps == list(range(1, 151))
    assert sum(losses[-10:]) < sum(losses[:10])


def test_a_goal_is_exact_to_the_step(tmp_path):
    settings = small_settings("classify-length", "RDA-exp-tanh")
    status = run_once(tmp_path / "run", replace(settings, limits=Limits(steps=2000)))
    _, accuracies = Record(tmp_path / "run").curve("accuracy")
    assert status.state == FINISHED
    assert accuracies.index(1.0) + 1 == status.goal_step <= status.step


def test_a_run_in_pieces_has_the_batches_of_a_run_in_one(tmp_path):
    settings = small_settings("addition", "RDA-exp-tanh")

    def until(steps):
        return replace(settings, limits=Limits(steps=steps, stop_at="never"))

    run_once(tmp_path / "whole", until(60))
    for steps in (20, 60):
        run_once(tmp_path / "pieces", until(steps))
    whole, pieces = (Record(tmp_path / name).curve("loss")[1] for name in ("whole", "pieces"))
    assert pieces == pytest.approx(whole, rel=1e-3)


def test_a_gradient_that_is_not_finite_is_named_with_its_step(tmp_path):
    def poison(stepper):
        # A tensor, because a CUDA graph replays kernels on its values and runs no Python code.
        factor = torch.ones((), device="cuda")
        stepper.model.readout.bias.register_hook(lambda grad: grad * factor)
        step, count = stepper.step, iter(range(1, 10**6))

        def poisoned():
            if next(count) == 7:
                factor.fill_(float("nan"))
            step()

        stepper.step = poisoned

    settings = with_changes(small_settings("addition", "RWA"), {"not_finite": "fail", "steps": 40})
    status = run_once(tmp_path / "run", settings, poison)
    assert status.state == FAILED
    assert status.reason == "gradient of readout.bias is not finite at step 7"
    assert len(Record(tmp_path / "run").curve("loss")[0]) == 7


@pytest.mark.parametrize("unit", COMPARED)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_recorded_step_is_the_step(unit, precision):
    """The losses are identical, because the same kernels run on the same numbers."""
    settings = small_settings("classify-length", unit)
    settings = replace(settings, recipe=replace(settings.recipe, precision=precision))
    losses = []
    for warm_up in (3, 10**6):
        stepper = build_stepper(settings, torch.device("cuda"))
        stepper._warming_up = warm_up
        for _ in range(20):
            stepper.step()
        assert (stepper._graph_of_step is None) == (warm_up > 20)
        losses.append([row["loss"] for row in stepper.fetch()])
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    "changes",
    [{"restart_probability": 0.0}, {"dropout": 0.2, "weight_dropout": 0.3}],
    ids=["", "with noise"],
)
def test_a_stream_is_carried_through_recorded_steps(changes):
    text = torch.randint(97, 123, (60_000,), generator=torch.Generator().manual_seed(0))
    files = {"enwik8": bytes(text.tolist())}
    settings = small_settings("wikipedia", "RDA-exp-tanh")
    task: Any = settings.task
    settings = with_changes(replace(settings, task=replace(task, characters=60_000)), changes)
    losses = []
    for warm_up in (3, 10**6):
        stepper = build_stepper(settings, torch.device("cuda"), files=files)
        stepper._warming_up = warm_up
        for _ in range(60):
            stepper.step()
        losses.append([row["loss"] for row in stepper.fetch()])
    assert losses[0] == losses[1]


def test_a_schedule_reaches_steps_that_are_recorded():
    """A recorded step reads the learning rate of its own step, and none that was captured."""
    settings = small_settings("classify-length", "RDA-exp-tanh")
    changes = Recipe(hidden_size=16, batch_size=8, schedule="linear", schedule_steps=15)
    settings = replace(settings, recipe=replace(changes, learn_initial_state=True))
    losses = []
    for warm_up in (3, 10**6):
        stepper = build_stepper(settings, torch.device("cuda"))
        stepper._warming_up = warm_up
        for _ in range(20):
            stepper.step()
        before = stepper.model.readout.weight.clone()
        stepper.step()
        assert torch.equal(stepper.model.readout.weight, before)  # the rate has come to 0
        losses.append([row["loss"] for row in stepper.fetch()])
    assert losses[0] == losses[1]


def test_a_step_that_is_skipped_changes_nothing_and_the_next_one_does():
    settings = small_settings("addition", "RDA-exp-tanh")
    settings = replace(settings, recipe=replace(settings.recipe, not_finite="skip", clip_norm=1.0))
    stepper = build_stepper(settings, torch.device("cuda"))
    factor = torch.ones((), device="cuda")
    stepper.model.readout.bias.register_hook(lambda grad: grad * factor)
    weights = []
    for step in range(1, 10):
        factor.fill_(float("nan") if step in (2, 7) else 1.0)
        stepper.step()
        weights.append(stepper.model.readout.weight.detach().clone())
    same = [step for step in range(2, 10) if torch.equal(weights[step - 1], weights[step - 2])]
    assert same == [2, 7]
    assert [row.culprit for row in stepper.fetch()].count(None) == 7


@pytest.mark.parametrize("unit", COMPARED)
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_symbol_at_a_time_is_what_the_model_computes(unit, goes_on):
    torch.manual_seed(3)
    vocabulary = Vocabulary("bytes", tuple(range(256)), has_unknown=False)
    model = TextModel(unit, 300, vocabulary=vocabulary, embedding_size=20).cuda().eval()
    symbols = torch.randint(256, (40, 1), device="cuda")
    with torch.inference_mode(), matmul_precision("float32"):
        state = model(symbols)[1] if goes_on else None
        expected, _ = model(symbols, state)
        step = one_step(model, state)
        found = torch.stack([step(int(number)).clone() for number in symbols])
    # Sums of 300 products, in another order, over 40 steps.
    size = float(expected.abs().max())
    torch.testing.assert_close(found, expected[:, 0], rtol=0.0, atol=1e-4 * size)
