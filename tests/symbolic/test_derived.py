"""What is derived from a unit is what a person would write, and wrong units are refused."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rda import units
from rda.symbolic.derived import Derived
from rda.symbolic.expressions import evaluate, in_order, symbols_in
from rda.symbolic.functions import sigmoid, tanh, where
from rda.symbolic.gradient import D_OUTPUT, in_two_parts
from rda.units import Part, Unit


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


@pytest.mark.parametrize("unit", [units.LSTM(), units.GRU(), units.RDA(), units.RWA("relu")])
def test_a_backward_step_multiplies_only_what_it_waits_for(unit):
    whole = Derived(unit).gradient.results
    results, factors = in_two_parts(whole)
    late = {name for name in symbols_in(results, factors) if name != D_OUTPUT.symbol}
    assert late
    assert all(name.startswith("d.") for name in late)
    assert all(name == D_OUTPUT.symbol or name[:2] != "d." for name in symbols_in(factors))
    symbols = [each for each in in_order(whole) if each.symbol]
    values = torch.randn(len(symbols), 7, dtype=torch.float64, generator=torch.manual_seed(1))
    given = dict(zip(symbols, values.unbind(), strict=True))
    found = (evaluate(each, {**given}, values[0]) for each in (results, whole))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_a_backward_step_holds_no_more_than_it_loads():
    counts = {"LSTM": 7, "GRU": 6, "RDA": 7}
    for name, count in counts.items():
        assert len(in_two_parts(Derived(getattr(units, name)()).gradient.results)[1]) == count


class TestWhatAUnitMayNotDo:
    def traced(self, step, parts=("h",)):
        attributes = {"inputs": ("a",), "recurrent": ("a",), "state": parts, "step": step}
        return type("Mine", (Unit,), attributes)().traced

    def test_branch_on_a_value(self):
        with pytest.raises(TypeError, match=r"cannot branch.*where\(condition, a, b\)"):
            self.traced(lambda self, x, h, s: (x.a if x.a > 0 else h.a,))

    def test_ask_whether_a_value_is_a_number(self):
        with pytest.raises(TypeError, match="equals another"):
            self.traced(lambda self, x, h, s: (x.a if x.a == 0 else h.a,))

    def test_return_another_number_of_values(self):
        with pytest.raises(TypeError, match=r"Mine\.step.*\(h, c\), got 1 values"):
            self.traced(lambda self, x, h, s: (tanh(x.a),), ("h", "c"))

    @pytest.mark.parametrize(
        ("step", "said"),
        [
            (lambda self, x, h, s: (tanh(x.c),), r"Mine\.step asks for 'c', where there is: a$"),
            (lambda self, x, h: (x.a,), r"Mine\.step should take \(self, x, h, s\)"),
            (lambda self, x, h, s: tanh(x.a), r"got one Expression: write return \(value,\)"),
            (lambda self, x, h, s: (where(x.a < 0, x.a),), "where takes 3 values, got 2"),
            (lambda self, x, h, s: (where(x.a, x.a, h.a),), "where should have a comparison"),
            (lambda self, x, h, s: (where(x.a <= 0, x.a, h.a),), "comparisons are < and >"),
            (lambda self, x, h, s: (x.a**2,), r"no powers: write x \* x"),
            (lambda self, x, h, s: ((x.a < 0) + (h.a < 0),), r"no number for '\+'"),
            (lambda self, x, h, s: (where((x.a < 0) * (h.a < 0), x.a, h.a),), r"for '\*'"),
            (lambda self, x, h, s: (1 - (x.a < 0),), r"for '-': write where\(condition"),
        ],
    )
    def test_make_a_slip(self, step, said):
        with pytest.raises(TypeError, match=said):
            self.traced(step)

    @pytest.mark.parametrize(
        ("step", "said"),
        [
            (lambda x: torch.sigmoid(x), "torch's sigmoid .* use sigmoid of rda.functions"),
            (lambda x: torch.where(x > 0, x, 0), "torch's where .* use where of rda.functions"),
            (lambda x: F.logsigmoid(x), "torch's log_?sigmoid .* use log_sigmoid of rda.functions"),
            (lambda x: nn.Tanh()(x), "torch's tanh .* use tanh of rda.functions"),
            (lambda x: torch.abs(x), r"torch's abs .* write where\(v < 0, -v, v\)"),
            (lambda x: torch.sin(x), "torch's sin .* rda.functions has exp, log, .*, where"),
            (lambda x: torch.stack([x, x]), "torch's stack computes with tensors"),
            (lambda x: torch.tensor(0.5) * x, "got: Tensor: make a plain number of it, or name it"),
            (lambda x: np.tanh(x), "numpy's tanh .* use tanh of rda.functions"),
            (lambda x: np.maximum(x, 0), r"numpy's maximum .* write where\(a < b, b, a\)"),
            (lambda x: np.where(x > 0, x, 0), "numpy's where .* use where of rda.functions"),
            (lambda x: np.ones(3) * x, "got: ndarray: make a plain number of it"),
            (
                lambda x: math.exp(x),
                r"function of math .* has exp, .*, in: .*math\.exp",
            ),
            (lambda x: float(x), "neither float nor a function of math"),
            (lambda x: abs(x), r"no abs: write where\(v < 0, -v, v\)"),
            (lambda x: max(x, 0.0), r"cannot branch on one: use where.* max and min, in: .*max\(x"),
            (lambda x: 2**x, r"no powers: write x \* x"),
            (lambda x: x.tanh(), "no method 'tanh': use tanh of rda.functions"),
            (lambda x: x.clamp(0, 1), r"no method 'clamp': write where\(v < low"),
            (lambda x: where((x > 0) & (x < 1), x, 0), r"where\(one, where\(other, a, b\), b\)"),
            (lambda x: where(~(x > 0), x, 0), "exchange a and b in where"),
            (lambda x: x * math.nan, "numbers and expressions, got: nan"),
        ],
    )
    def test_use_a_function_that_no_engine_knows(self, step, said):
        with pytest.raises(TypeError, match=rf"^Mine\.step: .*{said}") as caught:
            self.traced(lambda self, x, h, s: (step(x.a + h.a),))
        assert "\n" not in str(caught.value)

    def test_but_compute_with_numbers_of_numpy(self):
        of_numpy, plain = (
            self.traced(lambda self, x, h, s, n=n: (where(n < x.a, n * x.a - h.a * n, tanh(n)),))
            for n in (np.float64(0.1), 0.1)
        )
        assert of_numpy.after["h"] is plain.after["h"]
        half = self.traced(lambda self, x, h, s: (np.float32(0.5) * x.a + h.a * np.float32(2),))
        assert half.after["h"] is 0.5 * half.x["a"] + half.h["a"] * 2

    def test_return_a_constant(self):
        with pytest.raises(TypeError, match=r"Mine\.step should compute with what it is given"):
            self.traced(lambda self, x, h, s: (1.0,))

    def test_compute_with_tensors(self):
        with pytest.raises(TypeError, match="with numbers and expressions, got: Tensor"):
            self.traced(lambda self, x, h, s: (sigmoid(x.a) * torch.ones(1),))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            (
                {"inputs": "a"},
                r"Mine\.inputs should be a tuple of names, got: 'a' \(write",
            ),
            ({"state": ("h", "h")}, r"Mine\.state has 'h' twice"),
            ({"recurrent": ()}, r"Mine\.recurrent should have at least one name"),
            ({"inputs": ("a b",)}, r"Mine\.inputs should be names of Python, got: 'a b'"),
            ({"biases": {"f": 1.0}}, r"Mine\.biases has 'f', which is not in inputs or weights"),
            (
                {"biases": {"a": torch.ones(3)}},
                r"Mine\.biases\['a'\] should be a number, got: Tensor$",
            ),
            ({"biases": {"a": math.nan}}, r"Mine\.biases\['a'\] should be a number, got: nan$"),
            ({"biases": ["a"]}, r"Mine\.biases should be numbers by name, got: list$"),
            (
                {"state": (Part("h", start=torch.ones(())),)},
                r"Mine\.state: the start of 'h' should be a number, got: Tensor$",
            ),
        ],
    )
    def test_be_made_of_something_else(self, changes, said):
        attributes = {"inputs": ("a",), "recurrent": ("a",), "state": ("h",), **changes}
        with pytest.raises((TypeError, ValueError), match=said):
            type("Mine", (Unit,), attributes)

    def test_have_no_step(self):
        attributes = {"inputs": ("a",), "recurrent": ("a",), "state": ("h",)}
        with pytest.raises(NotImplementedError, match=r"Mine should define step"):
            _ = type("Mine", (Unit,), attributes)().traced


def test_the_key_tells_units_apart_and_is_the_same_again():
    keys = [unit.key for unit in (units.LSTM(), units.GRU(), units.RNN(), units.RDA(), units.RWA())]
    assert len({*keys}) == len(keys)
    assert units.LSTM().key == units.LSTM().key
    assert units.RDA("relu").key == "RDA relu identity tanh"
    squared, cubed = (units.RDA(attention=f) for f in (lambda x: x * x, lambda x: x * x * x))
    assert squared.key != cubed.key
