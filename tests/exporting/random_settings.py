"""Random layers and random ways to export them, for the tests of export."""

import random
from typing import Any, NamedTuple

import torch
from own_units import PLAIN
from torch import nn

import rda
from rda.exporting.subject import Form


class Setting(NamedTuple):
    """A layer, the form of its file, and the sizes of an input."""

    layer: nn.Module
    form: Form
    time: int
    batch: int


def drawn(seed: int) -> Setting:
    """A setting, the same for the same seed."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    kind = draw.choice(["RDA", "RDA", "RWA", "LSTM", "GRU", "own"])
    options: dict[str, Any] = {
        "num_layers": draw.randint(1, 3),
        "bidirectional": draw.random() < 0.4,
        "batch_first": draw.random() < 0.5,
        "bias": draw.random() < 0.8,
        "learn_initial_state": draw.random() < 0.4,
        "dtype": draw.choice([torch.float32, torch.float32, torch.float64]),
    }
    if kind == "RDA":
        options |= {
            "attention": draw.choice(["exp", "relu", "softplus", "sigmoid", lambda x: 1 + x * x]),
            "hidden": draw.choice(["identity", "tanh"]),
            "output": draw.choice(["identity", "tanh", rda.functions.sigmoid]),
        }
    sizes = draw.randint(1, 5), draw.randint(1, 6)
    layer = made(kind, draw.choice([*PLAIN]), sizes, options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(draw.choice([0.5, 1.0, 2.0]))
            parameter.add_(0.1 * torch.randn_like(parameter))
    form = Form(draw.random() < 0.25, draw.random() < 0.4, draw.random() < 0.3)
    return Setting(layer, form, draw.choice([1, 2, 7]), draw.choice([1, 2, 3]))


def made(kind: str, own: str, sizes: tuple[int, int], options: dict[str, Any]) -> nn.Module:
    """The layer of this kind."""
    if kind == "own":
        return rda.Recurrent(PLAIN[own], *sizes, **options)
    if kind in ("RDA", "RWA"):
        return getattr(rda, kind)(*sizes, **options)
    return rda.build(kind, *sizes, **options)
