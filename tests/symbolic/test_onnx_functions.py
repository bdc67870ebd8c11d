"""Functions that ONNX does not have, written with those that it has."""

import math

import pytest
import torch

from rda.symbolic import functions
from rda.symbolic.expressions import evaluate, in_order, symbol
from rda.symbolic.onnx import OPERATORS, in_operators

ONE = ["sigmoid", "sigmoid_of_minus", "softplus", "log_sigmoid", "log_softplus", "log_relu"]
LOGITS = [-math.inf, -1e4, -104.0, -30.0, -20.0, -19.0, -8.0, -1.0, -1e-9, 0.0]
LOGITS += [-x for x in LOGITS] + [1e-40, math.nan]


def assert_equal(function, *arguments):
    """Both forms on the same values, in the dtype of the first."""
    symbols = [symbol(f"argument {place}") for place in range(len(arguments))]
    smallest = torch.finfo(arguments[0].dtype).tiny
    (written,) = in_operators([function(*symbols)], (), smallest)
    used = {each.function.name for each in in_order([written]) if each.function}
    assert used <= set(OPERATORS)
    (found,) = evaluate([written], dict(zip(symbols, arguments, strict=True)), arguments[0])
    expected = function(*arguments)
    roundings = 8 * torch.finfo(expected.dtype).eps
    # Near a softplus of 1 its logarithm is near 0, and as wrong as that softplus is: relative to 1.
    absolute = roundings if function is functions.log_softplus else smallest
    torch.testing.assert_close(found, expected, rtol=roundings, atol=absolute, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_value_are_exact_at_any_logit(name, dtype):
    logits = torch.cat((torch.tensor(LOGITS, dtype=dtype), torch.randn(200, dtype=dtype) * 9))
    assert_equal(getattr(functions, name), logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_weight_has_its_logarithm_and_a_negative_one_none(dtype):
    weights = torch.tensor([0.0, -0.0, 1e-40, 1e-30, 1.0, 1e30, -1.0, math.nan], dtype=dtype)
    assert_equal(functions.log_of_weight, weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_weight_that_users_carry_comes_back_exactly(dtype):
    weights = torch.tensor([-1.0, 0.0, 1e-30, 1e-9, 0.1, 0.999, 1.0, 20.0, 1e4], dtype=dtype)
    assert_equal(functions.log_from_weight, weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_average_of_weights_of_any_size(dtype):
    """Also where one of them has no weight, or neither."""
    log_weights = torch.tensor([-math.inf, -1e4, -1.0, 0.0, 2.0, 1e4], dtype=dtype)
    new, kept = torch.cartesian_prod(log_weights, log_weights).unbind(1)
    assert_equal(functions.log_ratio, new, kept)
    p = functions.log_ratio(new, kept)
    assert_equal(functions.log_sum, kept, new, p)
    old, features = torch.randn(2, len(p), dtype=dtype).unbind(0)
    (mixed,) = in_operators([functions.blend(*map(symbol, "abc"))], (), 0.0)
    values = {symbol("a"): old, symbol("b"): features, symbol("c"): p}
    (found,) = evaluate([mixed], values, old)
    torch.testing.assert_close(found, functions.blend(old, features, p))
    assert torch.equal(found[p == math.inf], features[p == math.inf])
    assert torch.equal(found[p == -math.inf], old[p == -math.inf])
