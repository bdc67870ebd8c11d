"""Units in recorded programs: torch.export, torch.jit, torch.fx, make_fx, dispatch modes."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import rda

ROOT = Path(__file__).parents[1]
UNITS = {"RDA": rda.RDA, "RWA": rda.RWA}


class Model(nn.Module):
    def __init__(self, unit=rda.RDA, **options):
        super().__init__()
        self.layer = unit(3, 4, num_layers=2, **options)
        self.head = nn.Linear(4, 2)

    def forward(self, x, state=None):
        output, final = self.layer(x, state)
        return self.head(output), final


def saved_and_loaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file).module()


def assert_same(found, expected):
    assert torch.equal(found[0], expected[0])
    assert isinstance(found[1], rda.State)
    for mine, wanted in zip(found[1], expected[1], strict=True):
        assert torch.equal(mine, wanted)


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(5, 2, 3)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("strict", [False, True])
def test_a_model_that_returns_its_state_is_exported_and_saved(unit, strict, x):
    model = Model(UNITS[unit])
    shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    loaded = saved_and_loaded(
        torch.export.export(model, (x,), dynamic_shapes=shapes, strict=strict)
    )
    longer = torch.randn(9, 3, 3)
    assert_same(loaded(longer), model(longer))


def test_an_exported_model_takes_a_state(x):
    model = Model()
    state = rda.State(part.detach() for part in model(x)[1])
    loaded = saved_and_loaded(torch.export.export(model, (x, state)))
    assert_same(loaded(x, state), model(x, state))


def kept(graph):
    """Of every scan in a graph, whether it saves what a backward pass needs."""
    scans = [n for n in graph.nodes if n.target == torch.ops.rda.scan.default]
    assert scans
    return [node.args[9] for node in scans]


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_model_does_not_keep_what_inference_never_reads(strict, x):
    program = torch.export.export(Model(), (x,), strict=strict)
    assert not any(kept(program.graph))


def test_an_exported_model_is_trained(x):
    model = Model()
    exported = torch.export.export(model, (x,)).module()
    gradients = []
    for one in (model, exported):
        output, state = one(x)
        (output.square().sum() + state.weight.sum()).backward()
        gradients.append({name: part.grad.clone() for name, part in one.named_parameters()})
        one.zero_grad()
    assert gradients[0].keys() == gradients[1].keys()
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_model_is_traced_with_torchs_own_check(x):
    model = Model()
    traced = torch.jit.trace(model, x)
    output, final = traced(x)
    expected, state = model(x)
    assert torch.equal(output, expected)
    assert all(map(torch.equal, final, state))
    assert "keep=1" not in str(traced.inlined_graph)
    output.square().sum().backward()
    found = model.layer.weight_hh_l0.grad.clone()
    model.zero_grad()
    expected.square().sum().backward()
    torch.testing.assert_close(found, model.layer.weight_hh_l0.grad)


@pytest.mark.parametrize("imports", ["import rda\nimport torch", "import torch\nimport rda"])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_saved_model_is_loaded_after_a_bare_import(imports, tmp_path, x):
    model = Model()
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "exported.pt2")
    torch.jit.trace(model, x).save(tmp_path / "traced.pt")
    torch.save(model(x)[1], tmp_path / "state.pt")
    code = f"""{imports}
x, folder = torch.ones(5, 2, 3), {str(tmp_path)!r}
torch.jit.load(folder + "/traced.pt")(x)
torch.export.load(folder + "/exported.pt2").module()(x)
torch.load(folder + "/state.pt", weights_only=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_make_fx_records_the_scan_and_not_its_result(x):
    layer = rda.RDA(3, 4)
    with torch.no_grad():
        traced = make_fx(lambda x: layer(x)[0])(x)
        other = torch.randn(5, 2, 3)
        assert torch.equal(traced(other), layer(other)[0])


def test_a_dispatch_mode_sees_the_scan(x):
    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    names = []
    layer = rda.RDA(3, 4)
    with Names():
        layer(x)[0].sum().backward()
    assert "rda.scan.default" in names
    with FlopCounterMode(display=False):
        layer(x)


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = rda.RDACell(3, 4)

    def forward(self, x, average, weight):
        state = self.cell(x, (average, weight))
        return self.cell.readout(state), state.weight


class Baseline(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.layer = rda.build(name, 3, 4, num_layers=2)

    def forward(self, x):
        output, _ = self.layer(x)
        return output + 1


@pytest.mark.parametrize("name", ["RDA", "RWA", "LSTM", "GRU"])
def test_symbolic_trace_takes_a_layer_as_one_node(name, x):
    model = Baseline(name)
    traced = torch.fx.symbolic_trace(model)
    assert [n.target for n in traced.graph.nodes if n.op == "call_module"] == ["layer"]
    assert torch.equal(traced(x), model(x))


def test_symbolic_trace_takes_states_lengths_and_cells(x):
    class Ragged(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = rda.RDA(3, 4)

        def forward(self, x, average, weight, lengths):
            output, state = self.layer(x, (average, weight), lengths=lengths)
            return output, state.average

    lengths, state = torch.tensor([5, 2]), (torch.randn(1, 2, 4), torch.rand(1, 2, 4))
    for model, given in (
        (Ragged(), (x, *state, lengths)),
        (Step(), (x[0], state[0][0], state[1][0])),
    ):
        traced = torch.fx.symbolic_trace(model)
        for found, expected in zip(traced(*given), model(*given), strict=True):
            assert torch.equal(found, expected)


def test_symbolic_trace_of_a_bare_layer_says_what_to_do():
    with pytest.raises(TypeError, match="should trace a model that contains it"):
        torch.fx.symbolic_trace(rda.RDA(3, 4))
