"""Read by mypy alone: which result goes with which call, and which calls are refused.

A call in `wrong` that became acceptable would leave a `type: ignore` that nothing needs, and mypy
reports those.
"""

from typing import assert_type

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

import rda
from rda.baselines import GRU, LSTM


def right(x: Tensor, packed: PackedSequence, name: str) -> None:
    layer = rda.RDA(3, 4, attention=torch.exp)
    assert_type(layer(x), tuple[Tensor, rda.State])
    assert_type(layer.forward(packed), tuple[PackedSequence, rda.State])
    assert_type(layer(x, lengths=x)[1].weight, Tensor)
    assert_type(rda.RDACell(3, 4)(x), rda.State)
    assert_type(rda.build("RDA-softplus-id", 3, 4), rda.RDA)
    assert_type(rda.build("RWA", 3, 4), rda.RWA)
    assert_type(rda.build("LSTM", 3, 4), LSTM)
    assert_type(rda.build(name, 3, 4), rda.RDA | rda.RWA | LSTM | GRU)
    assert_type(rda.State(x, x), rda.State)
    assert_type(rda.State(part.detach() for part in (x, x)), rda.State)


def wrong(x: Tensor) -> None:
    rda.RDA(3, 4, attention="bogus")  # type: ignore[arg-type]
    rda.RDA(3, 4, engine="bogus")  # type: ignore[arg-type]
    rda.RDACell(3, 4, output="bogus")  # type: ignore[arg-type]
    rda.functional.Choices(hidden="bogus")  # type: ignore[arg-type]
    rda.RDA(3, 4)(3)  # type: ignore[call-overload]
