"""Two processes under DistributedDataParallel give the gradients of one."""

import os

import forking
import pytest
import torch
from torch import distributed, multiprocessing, nn

import rda

pytestmark = pytest.mark.skipif(not distributed.is_available(), reason="torch without distributed")


class Classifier(nn.Module):
    def __init__(self, unit):
        super().__init__()
        self.layer = rda.build(unit, 3, 5, num_layers=2, learn_initial_state=True)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.layer(x)[0][-1])


def model_and_batch(unit):
    torch.manual_seed(0)
    return Classifier(unit), torch.randn(7, 4, 3), torch.tensor([0, 1, 1, 0])


def gradients(model, x, target):
    nn.functional.cross_entropy(model(x), target).backward()
    return {name.removeprefix("module."): part.grad for name, part in model.named_parameters()}


def work(rank, units, folder):
    torch.set_num_threads(1)
    store = distributed.FileStore(os.path.join(folder, "store"), 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    for unit in units:
        model, x, target = model_and_batch(unit)
        mine = slice(2 * rank, 2 * rank + 2)
        parallel = nn.parallel.DistributedDataParallel(model)
        found = gradients(parallel, x[:, mine], target[mine])
        torch.save(found, os.path.join(folder, f"{unit}-{rank}.pt"))
        del parallel, found
    # Neither may tear its connections down while the other still uses them.
    distributed.barrier()
    distributed.destroy_process_group()
    # Gloo's threads may still hold a tensor, and one that wants Python's lock while the interpreter
    # ends aborts the process now and then (github.com/pytorch/pytorch/pull/179291).
    os._exit(0)


def test_two_processes_give_the_gradients_of_one(tmp_path):
    units = ("RDA-exp-tanh", "RWA")
    multiprocessing.start_processes(
        work, args=(units, str(tmp_path)), nprocs=2, start_method=forking.METHOD
    )
    for unit in units:
        alone = gradients(*model_and_batch(unit))
        for rank in range(2):
            shared = torch.load(tmp_path / f"{unit}-{rank}.pt", weights_only=True)
            assert shared.keys() == alone.keys()
            for name, gradient in alone.items():
                # The mean of two halves against one sum: float32 rounding of values below 1.
                torch.testing.assert_close(shared[name], gradient, rtol=1e-5, atol=1e-7)
