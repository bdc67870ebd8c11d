"""The contract of engines: every unit, in every engine, equals its own functions in float64."""

import pytest
import torch
from contract import assert_equal_to_reference, drawn
from own_units import PLAIN, RDAS

from rda.scan import op, reference
from rda.symbolic.functions import tanh
from rda.units import Part, Unit

UNITS = {**PLAIN, **RDAS}
RUNNABLE = [pytest.param("cpu", marks=pytest.mark.needs_compiler), "eager"]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}
"""Relative to the largest number of a tensor: a few dozen roundings on the way through 9 steps in
float32, and in float64 what derived gradients may differ from autograd's."""
RAGGED = torch.tensor([9, 0, 1, 5])
SHAPES = {
    "one step": (1, 1, 1, None, False),
    "reversed": (9, 13, 21, None, True),
    "ragged": (9, 4, 40, RAGGED, False),
    "ragged and reversed": (9, 4, 8, RAGGED, True),
}


@pytest.mark.parametrize("engine", RUNNABLE)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("name", UNITS)
def test_outputs_states_and_gradients(name, dtype, engine):
    for shape in SHAPES.values():
        call = drawn(UNITS[name], shape, dtype)
        assert_equal_to_reference(call, engine, TOLERANCE[dtype])


@pytest.mark.parametrize("engine", RUNNABLE)
@pytest.mark.parametrize("name", PLAIN)
def test_without_a_start_and_with_a_projected_input(name, engine):
    for options in ({"starts": False}, {"projects": False}):
        call = drawn(PLAIN[name], SHAPES["ragged"], torch.float64, **options)
        assert_equal_to_reference(call, engine, TOLERANCE[torch.float64])


@pytest.mark.parametrize("engine", RUNNABLE)
@pytest.mark.parametrize("name", PLAIN)
def test_second_derivatives(name, engine):
    call = drawn(PLAIN[name], (3, 2, 3, None, False), torch.float64)
    given = [x for x in call.tensors if x is not None]

    def norm_of_gradients(results):
        total = sum(part.square().sum() for part in results)
        found = torch.autograd.grad(total, given, create_graph=True, allow_unused=True)
        return torch.autograd.grad(sum(x.square().sum() for x in found if x is not None), given)

    ours = norm_of_gradients(op.scan(call, engine, "fp32"))
    theirs = norm_of_gradients(reference.scan(call))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


class StartsAtHalf(Unit):
    """Its h is not zero before the first step."""

    inputs = recurrent = ("a",)
    state = (Part("h", start=0.5),)

    def step(self, x, h, s):
        return (tanh(x.a + h.a),)


@pytest.mark.parametrize("engine", RUNNABLE)
def test_the_unit_s_own_start_is_multiplied_too(engine):
    call = drawn(StartsAtHalf(), (3, 2, 4, None, False), torch.float64, starts=False)
    explicit = call._replace(start=(torch.full((2, 4), 0.5, dtype=torch.float64),))
    given = [x for x in call.tensors if x is not None]
    found, expected = (
        torch.autograd.grad(op.scan(each, engine, "fp32")[0].sum(), given)
        for each in (call, explicit)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)
