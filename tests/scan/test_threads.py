"""Threads that share the units of a step: right however many there are and whenever they run."""

import subprocess
import sys

import pytest
import torch

import rda

THREADS_BEYOND_ANY_CORE_COUNT = 8
"""More than share the units of the layers below, too, so that some have nothing to do."""


@pytest.fixture
def _busy_processes():
    """Two processes that never pause, so that a thread may be off its core at any moment."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(2)]
    yield
    for process in processes:
        process.kill()
        process.wait()


def results(layer, input, lengths, threads):
    """Outputs, final state and gradients."""
    torch.set_num_threads(threads)
    input = input.detach().requires_grad_()
    packed = torch.nn.utils.rnn.pack_padded_sequence(input, lengths, enforce_sorted=False)
    output, final = layer(packed)
    total = output.data.square().sum() + final.average.sum() + final.weight.sum()
    return [output.data, *final, *torch.autograd.grad(total, [input, *layer.parameters()])]


@pytest.mark.usefixtures("_busy_processes")
@pytest.mark.parametrize("batch", [1, 9, 17])
@pytest.mark.parametrize("kind", [rda.RDA, rda.RWA])
def test_more_threads_than_cores_beside_busy_processes_give_the_same_results(kind, batch):
    torch.manual_seed(0)
    layer = kind(5, 250, engine="cpu", dtype=torch.float64)
    input = torch.randn(40, batch, 5, dtype=torch.float64)
    lengths = torch.randint(1, 41, (batch,))
    lengths[0] = 40
    expected = results(layer, input, lengths, threads=1)
    for _ in range(5):
        found = results(layer, input, lengths, THREADS_BEYOND_ANY_CORE_COUNT)
        for mine, exact in zip(found, expected, strict=True):
            # Sums of a few thousand float64 products, which the weights' gradients add up in
            # another order: 2^-53 times a few hundred. A step read too early is off by far more.
            torch.testing.assert_close(mine, exact, rtol=1e-11, atol=1e-11)
