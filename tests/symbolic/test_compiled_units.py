"""Every function of a unit compiled for the CPU is torch's."""

import math

import pytest
import torch

from rda.scan.cpu.native import Native
from rda.scan.passes import Call, Weights
from rda.symbolic import functions as f
from rda.symbolic.derived import Derived
from rda.units import Unit

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
"""Some dozen roundings."""

FUNCTIONS = {
    "tanh": f.tanh,
    "sigmoid": f.sigmoid,
    "sigmoid_of_minus": f.sigmoid_of_minus,
    "softplus": f.softplus,
    "log_sigmoid": f.log_sigmoid,
    "relu": f.relu,
    "log_softplus": f.log_softplus,
    "exp": lambda x: f.exp(0.5 * x),
    "log": lambda x: f.log(1.0 + x * x),
    "quotient": lambda x: x / (2.0 + x * x),
    "where": lambda x: f.where(x < 0.5, -x, 2.0 - x),
}

pytestmark = pytest.mark.needs_compiler


class AllFunctions(Unit):
    """A part of the state for each function of x."""

    inputs = ("a",)
    recurrent = ("none",)
    state = tuple(FUNCTIONS)

    def step(self, x, h, s):
        return tuple(function(x.a) for function in FUNCTIONS.values())

    def hidden(self, s):
        return s[0] + 0.0 * sum(s)


class AtTheEdges(Unit):
    """Functions where their arguments have no logarithm, or are too large, or no numbers."""

    inputs = ("a",)
    recurrent = ("none",)
    state = ("log", "exp", "relu")

    def step(self, x, h, s):
        return f.log(x.a), f.exp(x.a), f.relu(x.a)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_functions_at_the_edges_of_numbers(dtype):
    limits = torch.finfo(dtype)
    largest = math.log(limits.max)
    found = [0.0, -0.0, -1.0, limits.tiny, limits.tiny / 2, limits.tiny / 1e4, limits.max]
    found += [largest * (1 - 1e-6), largest - 1, largest - 2, largest * 1.01, -largest * 2]
    x = torch.tensor([*found, math.inf, -math.inf, math.nan], dtype=dtype)
    width = len(x)
    weights = Weights(x[:, None], None, torch.zeros(width, width, dtype=dtype))
    call = Call(AtTheEdges(), "", torch.ones(1, 1, 1, dtype=dtype), weights, (), None, False)
    results = Native(Derived(AtTheEdges()), dtype).forward(call, False)
    for part, function in zip(results.state, (torch.log, torch.exp, torch.relu), strict=True):
        exact = function(x.double()).to(dtype)
        torch.testing.assert_close(
            part[0, 0], exact, rtol=TOLERANCE[dtype], atol=limits.tiny, equal_nan=True
        )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_every_function_and_its_derivative(dtype):
    native = Native(Derived(AllFunctions()), dtype)
    x = torch.linspace(-60, 60, 4001, dtype=torch.float64).to(dtype)
    width = len(x)
    weights = Weights(x[:, None], None, torch.zeros(width, width, dtype=dtype))
    one = torch.ones(1, 1, 1, dtype=dtype)
    call = Call(native.of.unit, "", one, weights, (), None, False)
    results = native.forward(call, True)
    for k, (name, function) in enumerate(FUNCTIONS.items()):
        wide = x.double().requires_grad_()
        exact = function(wide)
        (slope,) = torch.autograd.grad(exact.sum(), wide)
        d_final = [
            torch.full((1, width), float(part == k), dtype=dtype) for part in range(len(FUNCTIONS))
        ]
        nothing = torch.zeros(1, 1, width, dtype=dtype)
        d_blocks, _ = native.backward(call, results, nothing, d_final)
        pairs = ((results.state[k].flatten(), exact), (d_blocks[0, 0, :width], slope))
        for found, expected in pairs:
            # Relative to each number, but not below a rounding of 1: 1 - tanh^2 has no more.
            scale = expected.detach().abs().clamp(min=1.0)
            error = ((found.double() - expected.detach()).abs() / scale).max()
            assert error < TOLERANCE[dtype] / 10, name
