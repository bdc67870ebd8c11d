"""The model around a unit: exact for ragged sequences, and reading where the task answers."""

import pytest
import torch

from rda.labels import UNIT_LABELS
from rda.settings import Recipe
from rda.tasks.classify_length import ClassifyLength
from rda.tasks.copying import MultiCopy
from rda.tasks.task import Source
from rda.tasks.wikipedia import Wikipedia
from rda.training.building import build_model, build_stepper
from rda.training.model import aligned_product
from rda.training.settings import RunSettings
from rda.training.text_model import TextModel


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()))


def model_for(task, unit, hidden_size, engine="auto", **recipe):
    settings = RunSettings(task, unit, Recipe(hidden_size=hidden_size, **recipe))
    return build_model(settings, task.input_size, task.output_size, engine)


@pytest.mark.parametrize("unit", UNIT_LABELS)
def test_what_stands_beyond_a_sequences_end_reaches_neither_loss_nor_gradient(unit):
    task = ClassifyLength(longest=12)
    torch.manual_seed(0)
    model = model_for(task, unit, 5, learn_initial_state=True).double()
    input, target, lengths = task.batch(torch.Generator().manual_seed(1), 6)
    beyond = torch.arange(12).unsqueeze(1) >= lengths
    clean = input.double()
    poisoned = clean.masked_fill(beyond.unsqueeze(-1), 50.0)
    losses = [
        task.losses(model(given, lengths=lengths)[0], target.double())
        for given in (clean, poisoned)
    ]
    assert torch.equal(*losses)
    for one, other in zip(*(gradients(model, loss.mean()) for loss in losses), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("unit", UNIT_LABELS)
def test_a_ragged_batch_equals_its_sequences_one_by_one(unit):
    task = ClassifyLength(longest=12)
    torch.manual_seed(0)
    model = model_for(task, unit, 5, learn_initial_state=True).double()
    batch = task.batch(torch.Generator().manual_seed(1), 6)
    together, _ = model(batch.input.double(), lengths=batch.lengths)
    for row, length in enumerate(batch.lengths.tolist()):
        alone, _ = model(batch.input[:length, row : row + 1].double())
        # Two orders of summation in float64.
        torch.testing.assert_close(alone[0], together[row], rtol=1e-12, atol=1e-12)


def test_symbols_are_one_hot_unless_the_task_embeds_them():
    assert model_for(MultiCopy(copies=1, symbols=2), "GRU", 3).unit.input_size == 9
    text = Wikipedia(characters=1000, segment=50, embedding=5, evaluation_streams=2)
    settings = RunSettings(text, "GRU", Recipe(hidden_size=3, batch_size=4))
    stepper = build_stepper(settings, torch.device("cpu"), files={"enwik8": b"ab" * 500})
    assert stepper.model.unit.input_size == 5
    assert stepper.model.encoder.weight.shape == (2, 5)


def test_the_readout_starts_as_section_6_1_says():
    torch.manual_seed(0)
    model = model_for(MultiCopy(), "RWA", 250)
    bound = (6 / (250 + 8)) ** 0.5
    assert model.readout.bias.eq(0).all()
    assert model.readout.weight.abs().max() <= bound
    # The largest of 2000 uniform draws falls short of the bound by 1% once in 10^8 times.
    assert model.readout.weight.abs().max() > 0.99 * bound


def test_the_engine_that_runs_is_named():
    assert model_for(MultiCopy(), "RWA", 4, engine="reference").engine_for(3) == "reference"
    assert model_for(MultiCopy(), "LSTM", 4, engine="torch").engine_for(3) == "torch.nn"


def test_only_a_model_of_the_next_symbol_is_one_that_writes():
    class WithWords(Source):
        vocabulary = ("short", "long")

    class OwnTask(ClassifyLength):
        def open(self, device, files=None):
            return WithWords(self, device)

    task = OwnTask(longest=9)
    stepper = build_stepper(RunSettings(task, "RWA", Recipe(hidden_size=4)), torch.device("cpu"))
    assert not isinstance(stepper.model, TextModel)
    assert stepper.model.readout.out_features == task.output_size


@pytest.mark.parametrize("answers", [205, 208, 3])
def test_columns_for_alignment_change_neither_answers_nor_gradients(answers):
    torch.manual_seed(0)
    layer = torch.nn.Linear(11, answers).double()
    given = torch.randn(4, 5, 11, dtype=torch.float64, requires_grad=True)
    leaves = [given, *layer.parameters()]
    weights = torch.randn(4, 5, answers, dtype=torch.float64)
    found = aligned_product(layer, given)
    expected = layer(given)
    # Products of other sizes may be summed in another order, in float64.
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(
        *(torch.autograd.grad((each * weights).sum(), leaves) for each in (found, expected)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
