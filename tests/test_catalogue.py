"""The five units of the paper, with section 6.1's initialisation."""

import math
from typing import get_args

import pytest
import torch
from own_units import Peephole
from torch import nn

import rda
from rda.catalogue import UNITS, check_engine
from rda.labels import RDA_LABELS, RDALabel, unit_label


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
@pytest.mark.parametrize("learn", [False, True])
def test_every_unit_is_built_and_called_alike(name, options, learn):
    unit = rda.build(name, 3, 4, learn_initial_state=learn, batch_first=True, **options)
    output, _ = unit(torch.randn(2, 5, 3))
    assert output.shape == (2, 5, 8 if options else 4)
    assert unit(torch.randn(5, 3))[0].shape == (5, 8 if options else 4)
    packed = nn.utils.rnn.pack_sequence([torch.randn(3, 3), torch.randn(2, 3)])
    assert unit(packed)[0].data.shape == (5, 8 if options else 4)


def test_labels_mean_what_the_paper_means():
    exp_tanh, sigmoid_id = (rda.build(name, 3, 4).choices for name in list(UNITS)[:2])
    assert (exp_tanh.attention, exp_tanh.hidden, exp_tanh.output) == ("exp", "identity", "tanh")
    assert (sigmoid_id.attention, sigmoid_id.hidden, sigmoid_id.output) == (
        "sigmoid",
        "identity",
        "identity",
    )
    assert isinstance(rda.build("RWA", 3, 4), rda.RWA)
    for name, torchs in (("LSTM", nn.LSTM), ("GRU", nn.GRU)):
        ours = rda.build(name, 3, 4)
        assert isinstance(ours, nn.RNNBase)
        assert [*ours.state_dict()] == [*torchs(3, 4).state_dict()]


@pytest.mark.parametrize(
    ("name", "gates"),
    [("RDA-exp-tanh", 3), ("RDA-sigmoid-id", 3), ("RWA", 2), ("LSTM", 4), ("GRU", 3)],
)
def test_xavier_for_each_gate_over_input_and_hidden_state(name, gates):
    torch.manual_seed(0)
    inputs, hidden = 50, 200
    unit = rda.build(name, inputs, hidden)
    bound = math.sqrt(6 / (inputs + hidden + hidden))
    from_input = unit.weight_ih_l0.split(hidden)[-gates:]
    for block in (*from_input, *unit.weight_hh_l0.split(hidden)):
        assert block.abs().max() <= bound
        # A uniform's deviation is bound / sqrt(3); 10,000 samples tell it to about 1%.
        assert block.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    if name not in ("LSTM", "GRU"):
        u = unit.weight_ih_l0[:hidden]
        bound = math.sqrt(6 / (inputs + hidden))
        assert u.abs().max() <= bound
        assert u.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)


@pytest.mark.parametrize("name", UNITS)
def test_biases_are_zero_but_forget_and_discount_gates(name):
    unit = rda.build(name, 3, 4, num_layers=2)
    for k in range(2):
        total = sum(
            part for n, part in unit.named_parameters() if n.startswith("bias") and f"_l{k}" in n
        )
        opened = {"LSTM": slice(4, 8), "GRU": slice(0, 0), "RWA": slice(0, 0)}.get(
            name, slice(12, 16)
        )
        expected = torch.zeros_like(total)
        expected[opened] = 1.0
        assert torch.equal(total, expected)


def test_lstm_and_gru_are_torchs_own():
    for name, plain in (("LSTM", nn.LSTM), ("GRU", nn.GRU)):
        unit, other = rda.build(name, 3, 4, engine="torch"), plain(3, 4)
        other.load_state_dict(unit.state_dict())
        x = torch.randn(5, 2, 3)
        assert torch.equal(unit(x)[0], other(x)[0])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projected_lstm_is_initialised_whole():
    torch.manual_seed(0)
    unit = rda.build("LSTM", 3, 40, proj_size=20, learn_initial_state=True)
    bound = math.sqrt(6 / 60)
    assert 0.8 * bound < unit.weight_hr_l0.abs().max() <= bound
    assert unit(torch.randn(5, 2, 3))[0].shape == (5, 2, 20)


def test_a_learned_start_is_where_lstm_and_gru_begin():
    torch.manual_seed(0)
    x = torch.randn(5, 2, 3)
    lstm = rda.build("LSTM", 3, 4, learn_initial_state=True)
    gru = rda.build("GRU", 3, 4, learn_initial_state=True)
    for part in (lstm.initial_hidden, lstm.initial_cell, gru.initial_hidden):
        nn.init.normal_(part)
    h, c, g = (
        part.unsqueeze(1).expand(1, 2, 4).contiguous()
        for part in (lstm.initial_hidden, lstm.initial_cell, gru.initial_hidden)
    )
    assert torch.equal(lstm(x)[0], lstm(x, (h, c))[0])
    assert torch.equal(gru(x)[0], gru(x, g)[0])
    assert "learn_initial_state" in repr(lstm)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("rda-exp-tanh", "RDA-exp-tanh"),
        ("RDA-sigmoid", "RDA-sigmoid-id"),
        ("lstm", "LSTM"),
        ("GRUU", "GRU"),
    ],
)
def test_an_unknown_unit_gets_the_nearest_name(name, nearest):
    with pytest.raises(ValueError, match=f"unknown unit '{name}'. Did you mean '{nearest}'"):
        rda.build(name, 3, 4)


@pytest.mark.parametrize("unit", [Peephole(), Peephole])
def test_a_unit_of_ones_own_is_sent_to_recurrent(unit):
    with pytest.raises(TypeError, match=r"unit Peephole: write rda\.Recurrent\(Peephole\(\), 3, 4"):
        rda.build(unit, 3, 4)


def test_a_label_cannot_be_made_to_lie():
    with pytest.raises(TypeError, match="attention is fixed by the label RDA-exp-tanh"):
        rda.build("RDA-exp-tanh", 3, 4, attention="relu")


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_baselines_keep_torchs_argument_name_and_errors(name):
    unit = rda.build(name, 3, 4, learn_initial_state=True)
    assert unit(torch.randn(5, 2, 3), hx=None)[0].shape == (5, 2, 4)
    with pytest.raises(ValueError, match="2D or 3D"):
        unit(torch.randn(3))


def test_a_unit_that_is_no_name():
    with pytest.raises(TypeError, match="unit should be a name, got: int"):
        rda.build(3, 3, 4)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="attention"):
        rda.build("RWA", 3, 4, attention="exp")


def test_rda_is_a_label_for_the_default():
    assert rda.build("RDA", 3, 4).choices == rda.RDA(3, 4).choices
    assert unit_label("RDA") == "RDA-exp-tanh"
    assert [unit_label(label) for label in UNITS] == list(UNITS)
    with pytest.raises(ValueError, match="unknown unit 'RDX'"):
        unit_label("RDX")
    assert set(get_args(RDALabel)) == {"RDA", *RDA_LABELS}


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
class TestEnginesOfBaselines:
    def test_one_that_cannot_serve_raises_with_the_reason(self, name):
        unit = rda.build(name, 3, 4, engine="cuda")
        with pytest.raises(rda.EngineUnavailableError, match="the tensors are on cpu"):
            unit(torch.randn(5, 2, 3))
        with pytest.raises(rda.EngineUnavailableError, match="the tensors are on cpu"):
            unit(nn.utils.rnn.pack_sequence([torch.randn(3, 3), torch.randn(2, 3)]))
        with pytest.raises(rda.EngineUnavailableError, match="a batch of sequences"):
            unit(torch.randn(5, 3))

    def test_torch_is_torchs_own(self, name):
        unit = rda.build(name, 3, 4, engine="torch")
        assert unit.engine_for(torch.randn(5, 2, 3)) == "torch.nn"

    def test_an_unknown_one_gets_the_nearest_name(self, name):
        with pytest.raises(ValueError, match="Did you mean 'cuda'"):
            rda.build(name, 3, 4, engine="cudda")
        with pytest.raises(TypeError, match="engine should be a name, got: list"):
            rda.build(name, 3, 4, engine=[])


@pytest.mark.parametrize(
    ("unit", "valid", "invalid"), [("RDA", "eager", "torch"), ("LSTM", "torch", "eagre")]
)
def test_an_engine_is_checked_before_a_unit_is_built(unit, valid, invalid):
    check_engine(unit, valid)
    with pytest.raises(ValueError, match=f"engine '{invalid}'"):
        check_engine(unit, invalid)


def test_plain_pytorch_code_is_called_eager():
    with pytest.raises(ValueError, match="plain PyTorch code is 'eager'"):
        rda.RDA(3, 4, engine="torch")
    assert rda.RDA(3, 4, engine="eager")(torch.randn(5, 2, 3))[0].shape == (5, 2, 4)
