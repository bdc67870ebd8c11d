"""Every unit in every GPU engine and precision equals its own functions in float64."""

import pytest
import torch
from contract import assert_equal_to_reference, drawn
from own_units import HARD, PLAIN, RDAS

WIDTH = {"block": 37, "cuda": 130, "grid": 132, "graph": 40}
CASES = [
    (engine, precision)
    for engine in WIDTH
    for precision in ("fp32", "tf32", "bf16")
    if (engine != "block" or precision != "bf16") and (engine != "grid" or precision == "bf16")
]
# Relative to the largest number of a tensor. A tf32 has 11 bits and a bf16 8, so that a product is
# off by 5e-4 and 4e-3, and each of 9 steps passes its error on.
TOLERANCE = {"fp32": 2e-5, "tf32": 1e-2, "bf16": 8e-2}
RAGGED = torch.tensor([9, 0, 1, 5])
SMOOTH = {name: unit for name, unit in RDAS.items() if "relu" not in name}
"""At the kink of ReLU a rounding decides whether a step counts at all."""


def shapes(width):
    return (
        (1, 1, width, None, False),
        (9, 13, width, None, True),
        (9, 4, width, RAGGED, False),
        (9, 4, width, RAGGED, True),
    )


@pytest.mark.parametrize(("engine", "precision"), CASES)
@pytest.mark.parametrize("name", PLAIN)
def test_outputs_states_and_gradients(name, engine, precision):
    if name.startswith("Carried"):
        pytest.skip("cells run it on a CPU; on a GPU torch converts their states")
    if name == "Rectified" and precision != "fp32":
        pytest.skip("at the kink of ReLU the rounding of tf32 and bf16 decides")
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    for shape in shapes(WIDTH[engine]):
        call = drawn(PLAIN[name], shape, dtype, device="cuda")
        assert_equal_to_reference(call, engine, TOLERANCE[precision], precision)


@pytest.mark.parametrize("engine", ["block", "cuda", "graph"])
@pytest.mark.parametrize("name", [*SMOOTH, *HARD])
def test_every_choice_and_every_hard_unit(name, engine):
    unit = {**SMOOTH, **HARD}[name]
    for shape in shapes(WIDTH[engine]):
        call = drawn(unit, shape, torch.float32, device="cuda")
        assert_equal_to_reference(call, engine, TOLERANCE["fp32"])
