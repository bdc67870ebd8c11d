"""Derived gradients are autograd's, and what is kept is what a person would keep."""

import interpreting
import pytest
import torch
from own_units import PLAIN, RDAS

from rda import units
from rda.scan.by_definition import Work, reference
from rda.symbolic.derived import Derived
from rda.symbolic.functions import sigmoid, tanh
from rda.units import Unit

ALL = {**PLAIN, **RDAS}
TIME, BATCH, UNITS = 7, 4, 3


def drawn(unit, lengths, reverse):
    """Numbers for everything that a unit reads, with gradients."""
    torch.manual_seed(0)

    def tensor(*shape):
        return torch.randn(*shape, dtype=torch.float64).requires_grad_()

    return Work(
        tensor(TIME, BATCH, len(unit.inputs) * UNITS),
        tensor(len(unit.recurrent) * UNITS, UNITS),
        tuple(tensor(UNITS) for _ in unit.weights),
        tuple(tensor(BATCH, UNITS) for _ in unit.parts),
        lengths,
        reverse,
    )


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [None, torch.tensor([7, 3, 0, 1])], ids=["whole", "ragged"])
def test_gradients_are_those_of_autograd(name, reverse, lengths):
    unit = ALL[name]
    work, of = drawn(unit, lengths, reverse), Derived(unit)
    output, final = reference(unit, work)
    d_output, d_final = torch.randn_like(output), [torch.randn_like(part) for part in final]
    exact = torch.autograd.grad(
        [output, *final], [work.projected, *work.start, *work.weights], [d_output, *d_final]
    )
    with torch.no_grad():
        again, last, kept = interpreting.forward(of, work)
        made, d_start = interpreting.backward(of, work, again, kept, d_output, d_final)
    for found, expected in zip((again, *last), (output, *final), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    order = of.orders[0]
    d_x = torch.empty(TIME, BATCH, len(order), UNITS, dtype=torch.float64)
    d_x[:, :, list(order)] = made[:, : len(order)].transpose(1, 2)
    d_weights = [made[:, place].sum((0, 1)) for place in of.weight_blocks]
    for found, expected in zip((d_x.flatten(2), *d_start, *d_weights), exact, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def kept_by(unit):
    kept = Derived(unit).kept
    return [*kept.sequences, *sorted(map(str, kept.values))]


def test_what_is_kept():
    assert kept_by(units.RNN()) == []
    assert kept_by(units.LSTM()) == [
        "c", *(f"sigmoid(add(x.{gate}, h.{gate}))" for gate in "fio"), "tanh(add(x.g, h.g))"
    ]  # fmt: skip
    r, z = (f"sigmoid(add(x.{gate}, h.{gate}))" for gate in "rz")
    product = "add(h.n, w.bias_n)"
    assert kept_by(units.GRU()) == [product, r, z, f"tanh(add(x.n, multiply({r}, {product})))"]
    kept = "add(s.l, log_sigmoid(add(x.gamma, h.gamma)))"
    common = ["sigmoid_of_minus(add(x.gamma, h.gamma))", "tanh(add(x.g, h.g))", "x.u"]
    assert kept_by(units.RDA()) == ["r", f"log_ratio(add(x.a, h.a), {kept})", *common]
    # The output is the average, and the slope of log f_a is one more value.
    assert kept_by(units.RDA("sigmoid", "identity", "identity")) == [
        f"log_ratio(log_sigmoid(add(x.a, h.a)), {kept})",
        "sigmoid_of_minus(add(x.a, h.a))",
        *common,
    ]


def test_sums_of_two_products_are_told_from_single_ones():
    assert Derived(units.RDA()).gates == (("u",), ("g", "a", "gamma"), ())
    assert Derived(units.LSTM()).gates == ((), ("i", "f", "g", "o"), ())
    assert Derived(units.GRU()).gates == (("n",), ("r", "z"), ("n",))


class TestWhatAUnitMayNotDo:
    def traced(self, step, parts=("h",)):
        attributes = {"inputs": ("a",), "recurrent": ("a",), "state": parts, "step": step}
        return type("Mine", (Unit,), attributes)().traced

    def test_branch_on_a_value(self):
        with pytest.raises(TypeError, match=r"cannot branch.*where\(condition, a, b\)"):
            self.traced(lambda self, x, h, s: (x.a if x.a > 0 else h.a,))

    def test_return_another_number_of_values(self):
        with pytest.raises(TypeError, match=r"Mine\.step should return 2 values, one for each"):
            self.traced(lambda self, x, h, s: (tanh(x.a),), ("h", "c"))

    def test_return_a_constant(self):
        with pytest.raises(TypeError, match=r"Mine\.step should compute with what it is given"):
            self.traced(lambda self, x, h, s: (1.0,))

    def test_compute_with_tensors(self):
        with pytest.raises(TypeError, match="with numbers and expressions, got: Tensor"):
            self.traced(lambda self, x, h, s: (sigmoid(x.a) * torch.ones(1),))
