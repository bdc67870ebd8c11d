"""Runs every kernel once on a small case, forward and backward, for the sanitizer."""

import torch
from torch.nn.utils.rnn import pack_padded_sequence

from rda import RDA, RWA
from rda.baselines import GRU, LSTM
from rda.scan.engines import ON_GPUS

LENGTHS = torch.tensor([5, 5, 4, 3, 3, 2, 1, 1, 1])


def ragged_layers(product):
    if product != "bf16":
        yield RDA(3, 40, engine="block")
    yield RDA(3, 40, engine="cuda")
    yield RWA(3, 130, engine="cuda")
    yield RDA(3, 40, engine="graph", attention="sigmoid")
    yield RWA(3, 130, engine="graph", bidirectional=True)
    if product == "bf16":
        yield RDA(3, 40, engine="grid")
        yield RWA(3, 132, engine="grid", bidirectional=True)


def baselines():
    for units in (40, 140, 600):  # engines block, cuda, and graph or grid
        yield LSTM(3, units)
        yield GRU(3, units)


def many_rows(product):
    """An odd batch so large that each block has two rows and the last block one."""
    if product == "bf16":
        return
    x = torch.randn(5, 333, 3, device="cuda", requires_grad=True)
    for unit in (RDA, LSTM, GRU):
        layer = unit(3, 40, bidirectional=True).cuda()
        output, _ = layer(x)
        output.sum().backward()


def run(product):
    torch.backends.cudnn.allow_tf32 = product != "fp32"
    dtype = torch.bfloat16 if product == "bf16" else torch.float32
    x = torch.randn(5, len(LENGTHS), 3, device="cuda", dtype=dtype, requires_grad=True)
    for layer in ragged_layers(product):
        output, _ = layer.to("cuda", dtype)(pack_padded_sequence(x, LENGTHS))
        output.data.sum().backward()
    for layer in baselines():
        layer.to("cuda", dtype)
        assert layer.engine_for(x) in ON_GPUS
        output, _ = layer(x)
        output.sum().backward()
    many_rows(product)


if __name__ == "__main__":
    for product in ("fp32", "tf32", "bf16"):
        run(product)
    torch.cuda.synchronize()
