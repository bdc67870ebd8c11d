"""Every unit's CUDA text equals its own functions on tensors; it runs on the CPU here."""

import pytest
import torch
from on_host import OnHost
from own_units import HARD, PLAIN, RDAS

from rda.scan.cuda.compiled import OnGpu
from rda.scan.cuda.launching import source
from rda.scan.cuda.text import Layout
from rda.scan.eager import Eager
from rda.scan.passes import Call, Weights
from rda.symbolic import functions as f
from rda.symbolic.derived import Derived
from rda.units import GRU, LSTM, RDA, RWA, Part, Unit

pytestmark = pytest.mark.needs_compiler

RAGGED = torch.tensor([9, 0, 1, 5])


class Shifted(Unit):
    """Its state moves on by itself: what one part becomes is what another one was."""

    inputs = recurrent = ("a",)
    state = "h", "before", Part("total", is_sum=True), Part("older", start=0.5)

    def step(self, x, h, s):
        new = f.tanh(x.a + h.a) + 0.1 * s.older
        return new, s.h, s.total - f.softplus(x.a + h.a), s.before


class Counting(Unit):
    """Its h needs the sum itself, and the old sum is kept."""

    inputs = recurrent = ("a",)
    state = Part("total", is_sum=True), "h"

    def step(self, x, h, s):
        total = s.total + f.log_sigmoid(x.a + h.a)
        return total, f.tanh(0.1 * total) * f.sigmoid(s.total)

    def hidden(self, s):
        return s.h + 0.1 * f.tanh(s.total)


class Letters(Unit):
    """Names that are none in C++, and a start that is not zero."""

    inputs = recurrent = ("ψ", "H")
    state = Part("λ", start=0.5), "register"

    def step(self, x, h, s):
        kept = f.sigmoid(x.ψ + h.ψ)
        fresh = f.log(1.5 + f.tanh(x.H + h.H))
        return kept * s.register + fresh, f.exp(-kept * kept) * s.λ / (2.0 + kept)


UNITS = {
    **PLAIN,
    **RDAS,
    **HARD,
    "Shifted": Shifted(),
    "Counting": Counting(),
    "Letters": Letters(),
}

WIDTH = {"fp32": (5, 1), "tf32": (5, 1), "bf16": (8, 4)}
"""Units of a layer, and those of a thread: more than one in bf16 alone, as in the engine `grid`."""
TOLERANCE = {"fp32": 2e-5, "tf32": 2e-5, "bf16": 4e-2}
"""Relative to the largest number of a tensor. float32: a few dozen roundings of 6e-8 on the way
through 9 steps, as in the CPU engine; tf32 differs in its formulas alone, because the multiply is
plain here. bf16: what is stored has an error of 2^-9 = 2e-3, and gradients gather a dozen."""
EXTREME = 2e-3
"""At 1e4 a float32 is rounded by 5e-4, which is then the error of a share."""


def on_host(precision, records_first=False):
    return OnHost(UNITS, precision, *WIDTH[precision], records_first=records_first)


class Case:
    """Numbers for everything that a unit reads, in the dtypes that a kernel takes."""

    def __init__(self, kernel, time, batch, width, lengths, reverse, has_start=True, logits=None):
        torch.manual_seed(0)
        of, dtype = kernel.of, torch.bfloat16 if kernel.precision == "bf16" else torch.float32
        self.kernel, self.lengths, self.reverse = kernel, lengths, reverse
        of_x, of_h = len(of.unit.inputs), len(of.unit.recurrent)
        self.input = torch.randn(time, batch, 3).to(dtype)
        of_input = (torch.randn(of_x * width, 3) / 3**0.5).to(dtype), torch.randn(of_x * width)
        recurrent = (torch.randn(of_h * width, width) / width**0.5).to(dtype)
        of_units = tuple(torch.randn(width) for _ in of.unit.weights)
        self.weights = Weights(of_input[0], of_input[1].to(dtype), recurrent, of_units)
        if logits is not None:
            drawn = torch.randint(len(logits), (time, batch, of_x * width))
            self.input = torch.tensor(logits)[drawn].to(dtype)
            self.weights = Weights(None, None, recurrent, of_units)
        parts = of.unit.parts if has_start else ()
        self.start = tuple(torch.randn(batch, width) for _ in parts)
        self.d_output = torch.randn(time, batch, width).to(dtype)
        self.d_final = [torch.randn(batch, width) for _ in of.unit.parts]

    def found(self):
        """The output, the final state, the gradients of the blocks and of the start."""
        kernel, start = self.kernel, self.start
        unit, others = kernel.of.unit, (self.lengths, self.reverse)
        call = Call(unit, "", self.input, self.weights, start, *others)
        results, alone = (kernel.forward(call, keep) for keep in (True, False))
        pairs = zip((results.output, *results.state), (alone.output, *alone.state), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
        d_blocks, d_start = kernel.backward(call, results, self.d_output, self.d_final)
        return [results.output, *(part[0] for part in results.state), d_blocks, *d_start]

    def exact(self):
        """The same in float64, by operations of torch."""
        kernel, weights = Eager(self.kernel.of), self.weights
        wide = [None if each is None else each.double() for each in weights[:3]]
        x = self.input.double()
        projected = x if wide[0] is None else torch.nn.functional.linear(x, wide[0], wide[1])
        if self.kernel.precision == "bf16":  # as the kernel reads it
            projected = projected.bfloat16().double()
        own = tuple(each.double() for each in weights.of_units)
        exact = Weights(None, None, wide[2], own)
        start = tuple(part.double() for part in self.start)
        call = Call(kernel.of.unit, "", projected, exact, start, self.lengths, self.reverse)
        results = kernel.forward(call, True)
        d_final = [part.double() for part in self.d_final]
        d_blocks, d_start = kernel.backward(call, results, self.d_output.double(), d_final)
        return [results.output, *(part[0] for part in results.state), d_blocks, *d_start]

    def check(self, tolerance):
        for found, exact in zip(self.found(), self.exact(), strict=True):
            assert found.isfinite().equal(exact.isfinite())
            finite = exact.nan_to_num(posinf=0.0, neginf=0.0)
            error = float((found.double().nan_to_num(posinf=0.0, neginf=0.0) - finite).abs().max())
            assert error / max(float(finite.abs().max()), 1.0) < tolerance


@pytest.mark.parametrize("records_first", [True, False])
@pytest.mark.parametrize("precision", TOLERANCE)
def test_outputs_states_and_gradients(precision, records_first):
    host = on_host(precision, records_first)
    width, _ = WIDTH[precision]
    for kernel in host.kernels.values():
        Case(kernel, 1, 1, width, None, False).check(TOLERANCE[precision])
        Case(kernel, 9, 3, width, None, True).check(TOLERANCE[precision])
        Case(kernel, 9, 4, width, RAGGED, False).check(TOLERANCE[precision])
        Case(kernel, 9, 4, width, RAGGED, True).check(TOLERANCE[precision])
        Case(kernel, 4, 2, width, None, False, has_start=False).check(TOLERANCE[precision])


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_no_logit_is_too_large(precision):
    for kernel in on_host(precision).kernels.values():
        case = Case(kernel, 9, 4, 5, RAGGED, False, has_start=False, logits=(-1e4, 0.0, 1.0, 1e4))
        case.check(EXTREME)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("tf32", 2e-3)])
@pytest.mark.parametrize("name", ["RWA", "RDA-exp-identity-tanh"])
def test_a_long_sum_in_full_float32_is_as_exact_as_a_short_one(name, precision, tolerance):
    # log d grows to 9, where a rounding is 5e-7 at every step. A compensated sum keeps these, and
    # what is left are the errors of its small terms; otherwise 3000 can add up to 1.5e-3.
    width = WIDTH[precision][0]
    case = Case(on_host(precision).kernels[name], 3000, 1, width, None, False, has_start=False)
    case.weights.bias[3 * width :] = 12.0  # gamma, where there is one: almost no discount
    output, _, l, *_ = case.found()
    exact_output, _, exact_l, *_ = case.exact()
    assert (l - exact_l).abs().max() < tolerance
    assert (output - exact_output).abs().max() < tolerance


@pytest.mark.parametrize("name", ["RDA-exp-identity-tanh", "RWA", "RDA-exp-tanh-identity"])
def test_an_output_near_one_has_a_gradient_in_bf16(name):
    # o = tanh(3): 1 - o^2 is 0.01, and rounding o to a bf16 changes that by up to 0.004. From an
    # average that is rounded by 0.008 it is exact to 2%, as all other factors are.
    kernel = on_host("bf16").kernels[name]
    case = Case(kernel, 1, 4, 8, None, False, has_start=False, logits=(3.0,))
    case.d_final = [torch.zeros(4, 8), torch.zeros(4, 8)]
    *_, found, _, _ = case.found()
    *_, exact, _, _ = case.exact()
    torch.testing.assert_close(found[..., :8].double(), exact[..., :8], rtol=0.05, atol=0)


def test_equal_units_share_their_kernels():
    def of(unit, precision="tf32"):
        return OnGpu(Derived(unit), lambda work: None, precision).unit

    assert of(RDA()) == of(RDA())
    different = (RDA(), RDA("sigmoid"), RWA(), LSTM())
    assert len({of(unit) for unit in different} | {of(RDA(), "fp32")}) == 5


def test_a_kernel_overwrites_no_input_of_the_caller():
    # Without input weights the input is W x + b already, and values are kept in its place.
    kernel = on_host("fp32").kernels["LSTM"]
    case = Case(kernel, 3, 2, 5, None, False, logits=(-1.0, 0.5, 2.0))
    before = case.input.clone()
    case.found()
    assert torch.equal(case.input, before)


def test_what_is_kept_takes_the_place_of_the_projections():
    def tensors(unit):
        layout = Layout(Derived(unit), "fp32")
        return sorted(slot.tensor for slot in layout.slots.values()), layout.extra

    assert tensors(LSTM()) == (["saved"] * 4, 0)
    assert tensors(RDA()) == (["saved"] * 4, 0)
    assert tensors(GRU()) == (["extra"] + ["saved"] * 3, 1)


def test_a_compiler_s_message_names_the_file():
    unit = OnGpu(Derived(LSTM()), lambda work: None, "tf32").unit
    text = source("onchip", unit)
    names = ["hardware.cu", "functions.cu", "LSTM, generated", "clusters.cu", "onchip.cu"]
    assert [line.split('"')[1] for line in text.splitlines() if line[:5] == "#line"] == names
