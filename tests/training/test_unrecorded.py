"""Training without a record is training: the same steps, the same weights, the same ending."""

import os
import signal
from dataclasses import replace

import torch
from tiny_runs import TINY_RUNS, Silent, files_for, run_once, with_steps

from rda.training import loading
from rda.training.loop import NotFiniteError
from rda.training.record import Record
from rda.training.status import FAILED, INTERRUPTED
from rda.training.unrecorded import Unrecorded, train_unrecorded

ADDITION = with_steps(TINY_RUNS["addition"], 6)


def trained(settings, listener=None):
    return train_unrecorded(settings, device="cpu", files=files_for(settings), listener=listener)


def test_it_is_the_same_as_a_recorded_run(tiny, tmp_path):
    settings = with_steps(tiny, 6)
    run_once(tmp_path / "run", settings)
    record, model = Record(tmp_path / "run"), loading.load(tmp_path / "run")
    found = trained(settings)
    assert found.weights.keys() == model.state_dict().keys()
    for name, weight in model.state_dict().items():
        assert torch.equal(found.weights[name], weight), name
    losses = [row["loss"] for row in found.rows if "loss" in row]
    assert losses == record.curve("loss")[1]
    elsewhere = {"seconds": 0.0, "sealed": False}
    assert replace(found.status, **elsewhere) == replace(record.status, **elsewhere)
    again = loading.model_of(settings, found.weights, found.facts)
    assert type(again) is type(model)


def test_a_loss_that_is_not_finite_ends_it_as_failed(monkeypatch):
    def fail(*_):
        raise NotFiniteError("loss is not finite at step 1")

    monkeypatch.setattr(Unrecorded, "append", fail)
    status = trained(ADDITION).status
    assert (status.state, status.reason) == (FAILED, "loss is not finite at step 1")


def test_an_interrupt_ends_it_between_two_steps():
    class Impatient(Silent):
        def stepped(self, step, row, seconds):
            os.kill(os.getpid(), signal.SIGINT)

    status = trained(ADDITION, Impatient()).status
    assert (status.state, status.step) == (INTERRUPTED, 1)


def test_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained(ADDITION)
    assert not list(tmp_path.iterdir())
