"""The page about writing units: its code runs."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch
from own_units import PLAIN, RDAS
from torch import nn

import rda
from rda.symbolic.expressions import in_order

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "units.md"


@pytest.fixture(scope="module")
def page():
    """What the code of the page prints, and the names that it defines."""
    torch.manual_seed(0)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S))
    names: dict = {}
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, str(PAGE), "exec"), names)
    return printed.getvalue(), names


def test_the_code_of_the_page_runs(page):
    printed, names = page
    assert float(re.search(r"tensor\((\S+),", printed)[1]) < 1e-5
    assert "Recurrent(Peephole" in repr(names["slow"])


def gru_of_2014(x, h, weights, steps):
    """Every h: the reset gate multiplies h, not W h."""
    weight_ih, weight_hh, bias = weights
    r_h, z_h, n_h = weight_hh.chunk(3)
    for now, goes_on in zip(x, steps, strict=True):
        r_x, z_x, n_x = (now @ weight_ih.t() + bias).chunk(3, -1)
        r, z = torch.sigmoid(r_x + h @ r_h.t()), torch.sigmoid(z_x + h @ z_h.t())
        new = z * h + (1 - z) * torch.tanh(n_x + (r * h) @ n_h.t())
        h = torch.where(goes_on, new, h)
        yield torch.where(goes_on, h, 0.0)


@pytest.mark.parametrize("engine", ["cpu", "eager", "reference"])
def test_a_unit_with_two_products_takes_two_steps(page, engine):
    _, names = page
    layer = rda.Recurrent(names["GRU2014"](), 3, 5, dtype=torch.float64, engine=engine)
    nn.init.normal_(layer.bias_l0)
    x, h = torch.randn(7, 4, 3, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
    x, h = x.requires_grad_(), h.requires_grad_()
    lengths = torch.tensor([7, 0, 3, 6])
    zeros = torch.zeros_like(h)
    start = tuple(part.unsqueeze(0) for part in (h, zeros, h, zeros))
    found, (last, *_) = layer(x.repeat_interleave(2, dim=0), start, lengths=2 * lengths)
    weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_l0]
    goes_on = (torch.arange(7)[:, None] < lengths)[..., None]
    expected = torch.stack([*gru_of_2014(x, h, weights, goes_on)])
    torch.testing.assert_close(found[1::2], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(last[0, 3], expected[5, 3], rtol=0, atol=1e-12)
    gradients = [
        torch.autograd.grad(each.square().sum(), [x, h, *weights])
        for each in (found[1::2], expected)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-11)


def test_the_functions_that_only_the_library_has_are_those_of_the_page():
    units = {**PLAIN, **RDAS}.values()
    results = [one for each in units for one in (*each.traced.after.values(), each.traced.hidden)]
    used = {one.function.name for one in in_order(results) if one.function is not None}
    arithmetic = {"add", "subtract", "multiply", "divide", "negate", "less"}
    said = re.search(r"RDA and RWA use functions.*?These are not", PAGE.read_text(), re.S)[0]
    told = {*re.findall(r"`(\w+)`", said)}
    assert told == used - arithmetic - {*rda.functions.__all__}
    for name in ("LSTM", "GRU", "RNN"):
        traced = PLAIN[name].traced
        of_one = {one.function.name for one in in_order(traced.after.values()) if one.function}
        assert of_one <= arithmetic | {*rda.functions.__all__}


def test_the_times_of_the_page_are_the_recorded_ones():
    record = json.loads((ROOT / "benchmarks/results/own_unit_gpu.json").read_text())
    (part,) = (part for part in record["own_unit"] if part["precision"] == "tf32")
    times = {name: subject["median"] for name, subject in part["subjects"].items()}
    rows = re.findall(r"^\| `?([^|`]+?)`?(?: \(.*\))? \| ([\d.]+) \|", PAGE.read_text(), flags=re.M)
    assert len(rows) == 4
    for name, shown in rows:
        assert shown == f"{times[name]:.2f}", name
