"""A layer of any unit behaves as torch's own layers do."""

import copy
import io
import pickle

import pytest
import torch
from own_units import ConstantDecay, Peephole, Rectified
from torch import nn
from torch.nn.utils.rnn import pack_sequence

import rda
from rda import units
from rda.functions import sigmoid, tanh

OWN = {"peephole": Peephole, "decay": ConstantDecay, "rectified": Rectified}
ENGINES = [pytest.param("cpu", marks=pytest.mark.needs_compiler), "eager", "reference"]


def parts(state):
    return state if isinstance(state, tuple) else (state,)


def loop(layer, x):
    """The same layer as a Python loop over its unit's step, in the words of a user."""
    unit, weights = layer.unit, dict(layer.named_parameters())
    state = unit.filled([None] * len(unit.parts), x.new_zeros(x.shape[1], layer.hidden_size))
    outputs = []
    for step in x:
        of_x = step @ weights["weight_ih_l0"].t() + weights["bias_l0"]
        of_h = unit.hidden(state) @ weights["weight_hh_l0"].t()
        blocks = (
            unit.x_type(*of_x.chunk(len(unit.inputs), -1)),
            unit.h_type(*of_h.chunk(len(unit.recurrent), -1)),
        )
        own = [weights[f"{name}_l0"] for name in unit.weights]
        state = unit.state_type(*unit.step(*blocks, state, *([unit.w_type(*own)] if own else [])))
        outputs.append(unit.output(state))
    return torch.stack(outputs), state


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", OWN)
def test_it_computes_what_a_loop_computes(name, engine):
    torch.manual_seed(0)
    layer = rda.Recurrent(OWN[name](), 3, 5, dtype=torch.float64, engine=engine)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(7, 4, 3, dtype=torch.float64)
    output, state = layer(x)
    expected, final = loop(layer, x)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
    for found, wanted in zip(parts(state), final, strict=True):
        torch.testing.assert_close(found[0], wanted, rtol=0, atol=1e-10)
    gradients = [
        torch.autograd.grad(each.square().sum(), list(layer.parameters()))
        for each in (output, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-9)


def test_the_lstm_s_definition_is_torch_s_lstm():
    torch.manual_seed(0)
    theirs = nn.LSTM(3, 5, num_layers=2, bidirectional=True).double()
    ours = rda.Recurrent(units.LSTM(), 3, 5, 2, bidirectional=True, dtype=torch.float64)
    weights = theirs.state_dict()
    for suffix in ours._suffixes:
        bias = weights.pop("bias_ih" + suffix) + weights.pop("bias_hh" + suffix)
        weights["bias" + suffix] = bias
    ours.load_state_dict(weights)
    x, state = torch.randn(6, 2, 3).double(), torch.randn(2, 4, 2, 5).double().unbind(0)
    for found, expected in zip(ours(x, state), theirs(x, state), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layouts_and_lengths_agree(name, bidirectional):
    torch.manual_seed(0)
    make = {"num_layers": 2, "bidirectional": bidirectional, "dtype": torch.float64}
    layer = rda.Recurrent(OWN[name](), 3, 5, **make)
    first = rda.Recurrent(OWN[name](), 3, 5, batch_first=True, **make)
    first.load_state_dict(layer.state_dict())
    sequences = [torch.randn(length, 3, dtype=torch.float64) for length in (6, 2, 4)]
    padded = nn.utils.rnn.pad_sequence(sequences)
    lengths = torch.tensor([6, 2, 4])
    packed, of_packed = layer(pack_sequence(sequences, enforce_sorted=False))
    unpacked, _ = nn.utils.rnn.pad_packed_sequence(packed)
    ragged, of_ragged = layer(padded, lengths=lengths)
    transposed, _ = first(padded.transpose(0, 1), lengths=lengths)
    torch.testing.assert_close(unpacked, ragged)
    torch.testing.assert_close(transposed.transpose(0, 1), ragged)
    for k, sequence in enumerate(sequences):
        alone, state = layer(sequence)
        torch.testing.assert_close(ragged[: len(sequence), k], alone)
        for one, other, own in zip(of_packed, of_ragged, state, strict=True):
            torch.testing.assert_close(one[:, k], own)
            torch.testing.assert_close(other[:, k], own)


@pytest.mark.parametrize("name", OWN)
def test_a_sequence_in_two_pieces_is_the_whole(name):
    torch.manual_seed(0)
    layer, x = rda.Recurrent(OWN[name](), 3, 5, 2, dtype=torch.float64), torch.randn(7, 2, 3)
    whole, final = layer(x.double())
    begun, state = layer(x[:3].double())
    ended, last = layer(x[3:].double(), state)
    torch.testing.assert_close(torch.cat((begun, ended)), whole)
    torch.testing.assert_close(last, final)


def test_a_state_of_one_part_is_a_tensor_as_the_gru_s():
    layer, x = rda.Recurrent(units.GRU(), 3, 5), torch.randn(4, 2, 3)
    output, state = layer(x)
    assert torch.equal(state[0], output[-1])
    assert torch.equal(layer(x, state)[0], layer(x, (state,))[0])


def test_the_start_is_learned():
    layer = rda.Recurrent(Peephole(), 3, 5, 2, learn_initial_state=True)
    assert layer.initial_h.shape == layer.initial_c.shape == (2, 5)
    layer(torch.randn(4, 2, 3))[0].sum().backward()
    assert layer.initial_c.grad.abs().sum() > 0


def test_it_is_saved_copied_and_pickled():
    layer, x = rda.Recurrent(Peephole(), 3, 5), torch.randn(4, 2, 3)
    assert [*layer.state_dict()] == [
        "weight_ih_l0", "weight_hh_l0", "bias_l0", "of_i_l0", "of_f_l0", "of_o_l0"
    ]  # fmt: skip
    expected = layer(x)[0]
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    other = rda.Recurrent(Peephole(), 3, 5)
    other.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    for each in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(each(x)[0], expected)


@pytest.mark.parametrize("name", OWN)
def test_torch_compile_sees_one_graph(name):
    torch.manual_seed(0)
    layer, x = rda.Recurrent(OWN[name](), 3, 5, 2), torch.randn(4, 2, 3)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x))
    gradients = [
        torch.autograd.grad(each(x)[0].square().sum(), list(layer.parameters()))
        for each in (layer, compiled)
    ]
    torch.testing.assert_close(*gradients)


def test_autocast_and_dropout():
    layer, x = rda.Recurrent(Peephole(), 3, 5, 2, dropout=0.5), torch.randn(4, 2, 3)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(x)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), layer(x)[0], rtol=0, atol=2e-2)


def test_second_derivatives():
    layer = rda.Recurrent(Peephole(), 2, 3, dtype=torch.float64)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], x)


def test_its_description_names_the_unit():
    assert repr(rda.Recurrent(Peephole(), 3, 5, 2)) == "Recurrent(Peephole, 3, 5, num_layers=2)"


class TestWrong:
    def test_a_class_for_an_instance(self):
        with pytest.raises(TypeError, match=r"instance of rda\.Unit, got: the class Peephole"):
            rda.Recurrent(Peephole, 3, 5)

    def test_something_else(self):
        with pytest.raises(TypeError, match=r"instance of rda\.Unit, got: str"):
            rda.Recurrent("LSTM", 3, 5)

    def test_a_step_that_calls_torch(self):
        class Mine(rda.Unit):
            inputs = recurrent = ("a",)
            state = ("h",)

            def step(self, x, h, s):
                return (torch.tanh(x.a + h.a),)

        with pytest.raises(TypeError, match=r"Mine\.step: torch's tanh .*rda\.functions"):
            rda.Recurrent(Mine(), 3, 5)

    def test_a_state_of_another_count(self):
        layer, x = rda.Recurrent(Peephole(), 3, 5), torch.randn(4, 2, 3)
        with pytest.raises(RuntimeError, match=r"a pair of tensors \(h, c\), got a tuple of 3"):
            layer(x, tuple(torch.zeros(3, 1, 2, 5)))
        with pytest.raises(RuntimeError, match=r"Expected state c of size \(1, 2, 5\)"):
            layer(x, (torch.zeros(1, 2, 5), torch.zeros(1, 3, 5)))

    def test_a_second_product_in_a_step(self):
        class Mine(rda.Unit):
            inputs = recurrent = ("a",)
            state = ("h",)

            def step(self, x, h, s):
                return (tanh(x.a + h.a @ h.a),)

        with pytest.raises(TypeError, match=r"one product.*recurrent"):
            rda.Recurrent(Mine(), 3, 5)


def test_f_a_and_f_o_of_one_s_own_run_in_the_engine():
    torch.manual_seed(0)
    layer = rda.RDA(3, 5, attention=lambda x: 1.0 + x * x, output=sigmoid, dtype=torch.float64)
    slow = copy.deepcopy(layer)
    slow.engine = "reference"
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    assert rda.functional.select("auto", x, layer.choices, layer.weight_hh_l0).name != "reference"
    torch.testing.assert_close(layer(x), slow(x), rtol=0, atol=1e-10)
