"""The model around a unit: exact for ragged sequences, and reading where the task answers."""

import pytest
import torch

from rda.labels import UNIT_LABELS
from rda.tasks.catalogue import build_task
from rda.tasks.settings import ClassifyLength, MultiCopy, Wikipedia
from rda.tasks.task import Batch
from rda.training.model import SequenceModel


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("unit", UNIT_LABELS)
def test_what_stands_beyond_a_sequences_end_reaches_neither_loss_nor_gradient(unit):
    task = build_task(ClassifyLength(longest=12))
    torch.manual_seed(0)
    model = SequenceModel(task, unit, 5, learn_initial_state=True).double()
    batch = task.batch(torch.Generator().manual_seed(1), 6)
    batch = Batch(batch.input.double(), batch.target.double(), batch.lengths)
    beyond = torch.arange(12).unsqueeze(1) >= batch.lengths
    poisoned = batch._replace(input=batch.input.masked_fill(beyond.unsqueeze(-1), 50.0))
    losses = [task.losses(model(given)[0], given.target) for given in (batch, poisoned)]
    assert torch.equal(*losses)
    for clean, other in zip(*(gradients(model, loss.mean()) for loss in losses), strict=True):
        assert torch.equal(clean, other)


@pytest.mark.parametrize("unit", UNIT_LABELS)
def test_a_ragged_batch_equals_its_sequences_one_by_one(unit):
    task = build_task(ClassifyLength(longest=12))
    torch.manual_seed(0)
    model = SequenceModel(task, unit, 5, learn_initial_state=True).double()
    batch = task.batch(torch.Generator().manual_seed(1), 6)
    together, _ = model(Batch(batch.input.double(), batch.target, batch.lengths))
    for row, length in enumerate(batch.lengths.tolist()):
        alone, _ = model(Batch(batch.input[:length, row : row + 1].double(), batch.target))
        # Two orders of summation in float64.
        torch.testing.assert_close(alone[0], together[row], rtol=1e-12, atol=1e-12)


def test_symbols_are_one_hot_unless_the_task_embeds_them():
    copying = build_task(MultiCopy(copies=1, symbols=2))
    assert SequenceModel(copying, "GRU", 3).unit.input_size == 9
    text = build_task(
        Wikipedia(characters=1000, embedding=5, evaluation_streams=2), files={"enwik8": b"ab" * 500}
    )
    model = SequenceModel(text, "GRU", 3)
    assert model.unit.input_size == 5
    assert model.encoder.weight.shape == (2, 5)


def test_the_readout_starts_as_section_6_1_says():
    task = build_task(MultiCopy())
    torch.manual_seed(0)
    model = SequenceModel(task, "RWA", 250)
    bound = (6 / (250 + 8)) ** 0.5
    assert model.readout.bias.eq(0).all()
    assert model.readout.weight.abs().max() <= bound
    # The largest of 2000 uniform draws falls short of the bound by 1% once in 10^8 times.
    assert model.readout.weight.abs().max() > 0.99 * bound


def test_the_engine_that_runs_is_named():
    task = build_task(MultiCopy())
    assert SequenceModel(task, "RWA", 4, engine="reference").engine_for(3) == "reference"
    assert SequenceModel(task, "LSTM", 4).engine_for(3) == "torch.nn"
