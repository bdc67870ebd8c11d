"""One process of a team: our layers inside DDP and FSDP2, beside the same without.

python layers_in_parallel.py
"""

import os
import sys

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import rda

TOLERANCE = 1e-5
"""The mean of two halves differs from the whole by some roundings of 6e-8 of sums of 8 rows."""


class Model(nn.Module):
    def __init__(self, unit):
        super().__init__()
        self.lower = rda.build(unit, 3, 8, num_layers=2)
        self.upper = rda.build("RWA", 8, 6)
        self.readout = nn.Linear(6, 1)

    def forward(self, x):
        return self.readout(self.upper(self.lower(x)[0])[0])


def gradients(model, x):
    model.zero_grad()
    model(x).square().mean().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def made(unit):
    torch.manual_seed(0)
    return Model(unit)


def check(found, expected, what):
    for name, gradient in expected.items():
        other = found[name]
        whole = other.full_tensor() if hasattr(other, "full_tensor") else other
        error = (whole - gradient).abs().max() / gradient.abs().max().clamp(min=1e-6)
        if not error < TOLERANCE:
            sys.exit(f"{what}: {name} differs by {error}")


def in_ddp(unit, x, expected, mine):
    for options in ({"static_graph": True}, {"find_unused_parameters": False}):
        model = DistributedDataParallel(made(unit), **options)
        for _ in range(2):
            found = gradients(model, x[:, mine])
        check({name.removeprefix("module."): g for name, g in found.items()}, expected, "DDP")
    compiled = DistributedDataParallel(torch.compile(made(unit), backend="aot_eager"))
    found = gradients(compiled, x[:, mine])
    check({name.split("_orig_mod.")[-1]: g for name, g in found.items()}, expected, "compiled")


def in_fsdp(unit, x, expected, mine):
    model = made(unit)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model.lower, model.upper, model):
        fully_shard(layer, mesh=mesh)
    for _ in range(2):
        found = gradients(model, x[:, mine])
    check(found, expected, "FSDP2")


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    x = torch.randn(9, 8, 3, generator=torch.Generator().manual_seed(1))
    mine = slice(4 * rank, 4 * rank + 4)
    for unit in ("RDA-exp-tanh", "LSTM"):
        expected = gradients(made(unit), x)
        in_ddp(unit, x, expected, mine)
        in_fsdp(unit, x, expected, mine)
    print("all the same", flush=True)
    dist.barrier()
    os._exit(0)  # torch's threads may not end cleanly, which is not what is tested
