"""Units that look harmless and are not, and mistakes that are said."""

import copy
import math
from pathlib import Path

import forking
import pytest
import torch
from own_units import HARD, unit

import rda
from rda.functions import exp, relu, tanh, where
from rda.units.known import find

RUNNABLE = [pytest.param("cpu", marks=pytest.mark.needs_compiler), "eager"]


@pytest.mark.parametrize("engine", RUNNABLE)
@pytest.mark.parametrize("name", HARD)
def test_they_are_right_in_every_engine(name, engine):
    torch.manual_seed(0)
    layer, exact = (
        rda.Recurrent(HARD[name], 2, 3, bidirectional=True, dtype=torch.float64, engine=each)
        for each in (engine, "reference")
    )
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(6, 3, 2, dtype=torch.float64)
    for lengths in (None, torch.tensor([6, 2, 4])):
        found, expected = (each(x, lengths=lengths) for each in (layer, exact))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        gradients = [
            torch.autograd.grad(each[0].square().sum(), list(of.parameters()))
            for each, of in ((found, layer), (expected, exact))
        ]
        torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize("engine", [*RUNNABLE, "reference"])
def test_plain_numbers_are_in_the_dtype_of_the_layer(engine):
    """float32 has 0.1 with an error of 1.5e-9, and 0.2 with 3.0e-9."""
    mine = unit(
        lambda self, x, h, s: (
            where(x.a > 0, 0.1, 0.2),
            0.1 * (x.a > 0),
            where(True, 0.1, 0.2) + 0 * x.a,
            exp(tanh(0.1)) + 0 * x.a,
        ),
        ("chosen", "compared", "constant", "computed"),
    )
    layer = rda.Recurrent(mine, 1, 1, dtype=torch.float64, engine=engine)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1.0)
    _, final = layer(torch.tensor([1.0, -1.0], dtype=torch.float64).view(1, 2, 1))
    numbers = [[0.1, 0.2], [0.1, 0.0], [0.1, 0.1], [math.exp(math.tanh(0.1))] * 2]
    expected = torch.tensor(numbers, dtype=torch.float64)
    torch.testing.assert_close(torch.cat(final).squeeze(2), expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("engine", [*RUNNABLE, "reference"])
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("result", ["output", "state"])
def test_what_a_step_does_not_use_has_a_gradient_of_zero(engine, is_compiled, result):
    """With None in its place AdamW would not decay it, and DDP would wait for it."""
    unused = HARD["nothing of what it is given is used"]
    layer = rda.Recurrent(unused, 2, 3, 2, learn_initial_state=True, engine=engine)
    run = torch.compile(layer, backend="aot_eager", fullgraph=True) if is_compiled else layer
    x = torch.randn(4, 2, 2, requires_grad=True)
    run(x)[result == "state"].sum().backward()
    for name, parameter in {"x": x, **dict(layer.named_parameters())}.items():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.any()) == name.startswith("initial_"), name


@pytest.mark.parametrize("engine", RUNNABLE)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x > 0) * 0.1,
        lambda x: x * (x > 0),
        lambda x: where(x > 0, 0.1, 0.2) * x,
        lambda x: 0.1 * (x > 0) + where(x > 0.1, 0.3, 0.7) * exp(0.1),
        lambda x: x * 0 + 0.1,
    ],
)
@pytest.mark.parametrize("choice", ["hidden", "output"])
def test_callables_that_compare(choice, function, engine):
    torch.manual_seed(0)
    layer = rda.RDA(2, 3, **{choice: function}, dtype=torch.float64, engine=engine)
    exact = copy.deepcopy(layer)
    exact.engine = "reference"
    x = torch.randn(6, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(layer(x), exact(x), rtol=0, atol=1e-12)


def test_a_question_of_equality_is_no_number():
    layer = rda.RDA(2, 3, output=lambda x: x * (x == relu(x)))
    x = torch.randn(6, 3, 2)
    with pytest.warns(rda.EngineWarning, match="output is a callable"):
        output, _ = layer(x)
    assert (output > 0).any()


@pytest.mark.parametrize("engine", [*RUNNABLE, "reference"])
def test_a_negative_attention_is_not_hidden(engine):
    torch.manual_seed(0)
    layer = rda.RDA(2, 3, attention=lambda x: x - 10.0, engine=engine)
    assert layer(torch.randn(4, 2, 2))[0].isnan().all()


class Leaky(rda.Unit):
    inputs = recurrent = ("a",)
    state = ("h",)

    def __init__(self, kept=0.9):
        self.kept = kept

    def step(self, x, h, s):
        return (self.kept * s.h + tanh(x.a + h.a),)


def test_a_layer_does_not_follow_changes_of_the_unit_it_was_made_of():
    mine = Leaky()
    layer, x = rda.Recurrent(mine, 2, 3, dtype=torch.float64), torch.randn(5, 2, 2).double()
    before = layer(x)[0]
    mine.kept = 0.1
    slow = copy.deepcopy(layer)
    slow.engine = "reference"
    for each in (layer, slow):
        torch.testing.assert_close(each(x)[0], before, rtol=0, atol=1e-12)
    other = rda.Recurrent(mine, 2, 3, dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    assert not torch.allclose(other(x)[0], before)


def test_another_process_reads_what_was_saved(tmp_path):
    (tmp_path / "theirs.py").write_text(
        "import rda\n"
        "class Theirs(rda.Unit):\n"
        "    inputs = recurrent = ('a',)\n"
        "    state = ('h',)\n"
        "    def step(self, x, h, s):\n"
        "        return (rda.functions.tanh(x.a + h.a + s.h),)\n"
    )
    code = (
        "import torch, rda\nfrom theirs import Theirs\n"
        "torch.manual_seed(0)\nlayer, x = rda.Recurrent(Theirs(), 2, 3), torch.ones(4, 1, 2)\n"
        "torch.save(layer, 'layer.pt')\n"
        "torch.export.save(torch.export.export(layer, (x,)), 'p.pt2')\n"
        "torch.save(layer(x)[0], 'expected.pt')\n",
        "import torch, rda, theirs\nx, expected = torch.ones(4, 1, 2), torch.load('expected.pt')\n"
        "program = torch.export.load('p.pt2').module()\n"
        "assert torch.allclose(program(x)[0], expected, atol=1e-6)\n"
        "layer = torch.load('layer.pt', weights_only=False)\n"
        "assert torch.allclose(layer(x)[0], expected, atol=1e-6)\n",
    )
    root = str(Path(rda.__file__).parents[1])
    for each in code:
        line = f"import sys; sys.path[:0] = [{root!r}, {str(tmp_path)!r}]\n{each}"
        ended, _, complaints = forking.run(["-c", line], tmp_path)
        assert ended == 0, complaints


CALLED = []


def not_a_unit():
    CALLED.append("a function")


class NotAUnit:
    def __init__(self):
        CALLED.append("a class")


@pytest.mark.parametrize("name", ["not_a_unit", "NotAUnit", "CALLED.append", "Leaky.step", "gone"])
def test_what_a_program_names_is_not_called_before_it_is_known_to_be_a_unit(name):
    with pytest.raises(KeyError, match=f"the unit {name} of .* is not known in this process"):
        find(f"{__name__}:{name} 0123456789ab")
    assert not CALLED


@pytest.mark.parametrize("module", ["theirs_alone", "theirs_alone.inside", "rda.__main__"])
def test_no_module_is_imported_because_a_program_names_it(module, tmp_path, monkeypatch):
    folder = tmp_path / "theirs_alone"
    folder.mkdir()
    for file in ("__init__.py", "inside.py"):
        (folder / file).write_text("raise SystemExit('this code has run')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyError, match=rf"import {module} before the program is run, or call"):
        find(f"{module}:Theirs 0123456789ab")


def test_our_own_units_are_found_in_any_process(tmp_path):
    """Programs of before name them by their modules, which nobody has imported yet."""
    code = (
        "import sys\nfrom rda.units import known\n"
        "key = 'rda.units.gru:GRU ' + known.GRU().key.split()[1]\n"
        "known._known.clear()\ndel sys.modules['rda.units.gru']\n"
        "assert known.find(key).key == key\n"
    )
    root = str(Path(rda.__file__).parents[1])
    ended, _, complaints = forking.run(
        ["-c", f"import sys; sys.path.insert(0, {root!r})\n{code}"], tmp_path
    )
    assert ended == 0, complaints


@pytest.mark.parametrize("function", [lambda x: 1.0 + x * x, torch.exp, torch.nn.Softplus()])
def test_callables_are_compiled_as_one_graph(function):
    layer = rda.RDA(2, 3, attention=function)
    x = torch.randn(4, 2, 2)
    whole = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(whole(x)[0], layer(x)[0])


@pytest.mark.parametrize("name", ["bias", "weight_ih", "lambda"])
def test_names_that_are_taken(name):
    with pytest.raises(ValueError, match=r"Mine\.weights (has|should)"):
        unit(lambda self, x, h, s, w: (tanh(x.a + h.a),), weights=(name,))
