"""Every unit compiled for the CPU equals its own functions on tensors."""

import pytest
import torch
from own_units import PLAIN, RDAS

from rda.scan.by_definition import Work, reference
from rda.scan.cpu.layer import scan
from rda.scan.cpu.native import Native
from rda.scan.passes import Weights
from rda.symbolic import functions as f
from rda.units import Part, Unit

ALL = {**PLAIN, **dict(list(RDAS.items())[::5])}
"""Each f_a, f_h and f_o at least once; tests of the layers go through the others."""
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
"""Relative to the largest number of a tensor, a few dozen roundings on the way through 9 steps."""

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


def gradients(outputs, inputs):
    torch.manual_seed(1)
    directions = [torch.randn_like(output, dtype=torch.float32) for output in outputs]
    return torch.autograd.grad(outputs, inputs, [d.to(outputs[0].dtype) for d in directions])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ALL)
def test_outputs_states_and_gradients(name, dtype):
    unit = ALL[name]
    native = Native(unit, dtype)
    for time, batch, width, lengths, reverse in (
        (1, 1, 1, None, False),
        (9, 13, 21, None, True),
        (9, 4, 40, torch.tensor([9, 0, 1, 5]), False),
        (9, 4, 8, torch.tensor([9, 0, 1, 5]), True),
    ):
        torch.manual_seed(0)

        def tensor(*shape):
            return torch.randn(*shape, dtype=dtype).div(shape[-1] ** 0.5).requires_grad_()

        of_x, of_h = native.of.orders
        x, start = tensor(time, batch, 3), [tensor(batch, width) for _ in unit.parts]
        weights = Weights(
            tensor(len(of_x) * width, 3),
            tensor(len(of_x) * width),
            tensor(len(of_h) * width, width),
            tuple(tensor(width) for _ in unit.weights),
        )
        given = [x, *weights[:3], *start, *weights.of_units]
        results = scan(native, x, weights, start, lengths, reverse)
        found = [*results, *gradients(results, given)]

        wide = [each.detach().double().requires_grad_() for each in given]
        starts, of_units = wide[4 : 4 + len(start)], wide[4 + len(start) :]
        projected = torch.nn.functional.linear(wide[0], wide[1], wide[2])
        blocks, recurrent = native.of.in_definition_order(projected, wide[3])
        work = Work(blocks, recurrent, tuple(of_units), tuple(starts), lengths, reverse)
        output, final = reference(unit, work)
        exact = [output, *(part[None] for part in final)]
        exact = [*exact, *gradients(exact, wide)]
        for ours, theirs in zip(found, exact, strict=True):
            scale = max(float(theirs.detach().abs().max()), 1.0)
            error = float((ours.detach().double() - theirs.detach()).abs().max())
            assert error / scale < TOLERANCE[dtype]


class AllFunctions(Unit):
    """A part of the state for each function of x."""

    inputs = ("a",)
    recurrent = ("none",)
    state = tuple(FUNCTIONS)

    def step(self, x, h, s):
        return tuple(function(x.a) for function in FUNCTIONS.values())

    def hidden(self, s):
        return s[0] + 0.0 * sum(s)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_every_function_and_its_derivative(dtype):
    native = Native(AllFunctions(), dtype)
    x = torch.linspace(-60, 60, 4001, dtype=torch.float64).to(dtype)
    width = len(x)
    weights = Weights(x[:, None], None, torch.zeros(width, width, dtype=dtype))
    one = torch.ones(1, 1, 1, dtype=dtype)
    results = native.forward(one, weights, [None] * len(FUNCTIONS), None, False, True)
    for k, (name, function) in enumerate(FUNCTIONS.items()):
        wide = x.double().requires_grad_()
        exact = function(wide)
        (slope,) = torch.autograd.grad(exact.sum(), wide)
        d_final = [
            torch.full((1, width), float(part == k), dtype=dtype) for part in range(len(FUNCTIONS))
        ]
        d_blocks, _ = native.backward(
            torch.zeros(1, 1, width, dtype=dtype), d_final, weights, [None] * len(FUNCTIONS),
            results, None, False,
        )  # fmt: skip
        pairs = ((results.state[k].flatten(), exact), (d_blocks[0, 0, :width], slope))
        for found, expected in pairs:
            # Relative to each number, but not below a rounding of 1: 1 - tanh^2 has no more.
            scale = expected.detach().abs().clamp(min=1.0)
            error = ((found.double() - expected.detach()).abs() / scale).max()
            assert error < TOLERANCE[dtype] / 10, name


class StartsAtHalf(Unit):
    """Its h is not zero before the first step."""

    inputs = recurrent = ("a",)
    state = (Part("h", start=0.5),)

    def step(self, x, h, s):
        return (f.tanh(x.a + h.a),)


def test_the_unit_s_own_start_is_multiplied_too():
    native = Native(StartsAtHalf(), torch.float64)
    torch.manual_seed(0)
    x, half = torch.randn(3, 2, 1).double(), torch.full((2, 4), 0.5).double()
    tensors = [torch.randn(4, 1), torch.randn(4), torch.randn(4, 4)]
    given = [tensor.double().requires_grad_() for tensor in tensors]
    without, explicit = (
        gradients(scan(native, x, Weights(*given), [start]), given) for start in (None, half)
    )
    for ours, theirs in zip(without, explicit, strict=True):
        assert torch.equal(ours, theirs)
