"""Mistakes in the batches of a person's own task are one line, before training."""

from dataclasses import dataclass

import pytest
import torch

import rda
from rda.settings import Recipe
from rda.tasks import Batch, Task, TaskError
from rda.tasks.first_batch import check_first_batch
from rda.training.building import build_stepper
from rda.training.settings import RunSettings


@dataclass(frozen=True)
class Bits(Task):
    """Is the last bit one?"""

    name = "bits-of-mine"
    title = "Bits"
    input_size, output_size = 1, 2

    def batch(self, generator, batch_size):
        bits = torch.randint(2, (5, batch_size), generator=generator)
        return Batch(bits.unsqueeze(-1).float(), bits[-1])


def with_batch(change, **attributes):
    def batch(self, generator, batch_size):
        return change(Bits.batch(self, generator, batch_size))

    return type("Bits", (Bits,), {"batch": batch, **attributes})()


def test_a_right_one_is_taken():
    check_first_batch(Bits(), 7, torch.device("cpu"))
    lengths = torch.arange(1, 8).clamp(max=5)
    check_first_batch(with_batch(lambda b: b._replace(lengths=lengths)), 7, torch.device("cpu"))
    symbols = with_batch(
        lambda b: Batch(b.input[..., 0].long(), b.input[..., 0].long()),
        symbolic=True, input_size=2, reads_every_step=True,
    )  # fmt: skip
    check_first_batch(symbols, 7, torch.device("cpu"))


@pytest.mark.parametrize(
    ("change", "attributes", "said"),
    [
        (lambda b: tuple(b), {}, r"Bits\.batch should return Batch\(input, target\), got tuple"),
        (lambda b: b, {"input_size": 4}, r"input should be \(time, 7, 4\).*got \(5, 7, 1\)"),
        (lambda b: b, {"output_size": 1}, r"target should be int64 from 0 to 0.*got 0 to 1"),
        (lambda b: b._replace(target=b.target.float()), {}, "target should be int64.*got float32"),
        (lambda b: b._replace(target=b.target[:3]), {}, r"target should be \(7,\).*got \(3,\)"),
        (lambda b: b, {"reads_every_step": True}, r"target should be \(5, 7\), an answer for ever"),
        (lambda b: b._replace(input=b.input.mT), {}, r"input should be \(time, 7, 1\)"),
        (
            lambda b: b._replace(input=b.input.double()),
            {},
            "should be float32, got float64: .float",
        ),
        (lambda b: b._replace(input=b.input[:0]), {}, "at least one step, got none"),
        (lambda b: b._replace(input=[1.0]), {}, "input should be a tensor, got list"),
        (lambda b: b, {"symbolic": True}, r"input should be \(time, 7\) for a batch"),
        (
            lambda b: b._replace(lengths=b.target),
            {},
            r"lengths should be \(7,\), int64 from 1 to 5",
        ),
        (lambda b: b.nothing, {}, r"Bits\.batch raised AttributeError.*test_first_batch.py, line"),
    ],
)
def test_a_mistake_is_told_with_what_was_expected(change, attributes, said):
    mine = RunSettings(with_batch(change, **attributes), "GRU", Recipe(batch_size=7))
    with pytest.raises(TaskError, match=said) as caught:
        build_stepper(mine, torch.device("cpu"))
    assert "\n" not in str(caught.value)


def test_a_class_in_place_of_a_task_is_told():
    with pytest.raises(TypeError, match=r"such as Bits\(\), got the class Bits"):
        rda.train(Bits, "GRU", steps=1)
