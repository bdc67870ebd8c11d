"""Sequences through layers: splits, padding, packing, states, choices."""

import copy
import itertools
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

import rda
from rda.activations import Choices, log_of_weight
from rda.equations import Gates, PlainState, output, plain_hidden, plain_step
from rda.functional import scan

UNITS = ("RDA-exp-tanh", "RDA-sigmoid-id", "RWA")


@pytest.mark.parametrize("unit", UNITS)
def test_a_layer_is_the_papers_equations_as_printed(unit):
    """From x_t and h_{t-1} with one matrix a gate over [x_t, h_{t-1}], in the plain form."""
    torch.manual_seed(0)
    hidden_size, x = 4, torch.randn(7, 2, 3, dtype=torch.float64)
    layer = rda.build(unit, 3, hidden_size, dtype=torch.float64)
    choices = layer.choices
    blocks = choices.input_blocks
    w_x = layer.weight_ih_l0.view(blocks, hidden_size, 3)
    w_h = layer.weight_hh_l0.view(blocks - 1, hidden_size, hidden_size)
    b = layer.bias_l0.view(blocks, hidden_size)
    concatenated = [torch.cat([w_x[k + 1], w_h[k]], dim=1) for k in range(blocks - 1)]

    h = torch.zeros(2, hidden_size, dtype=torch.float64)
    state, expected = PlainState(h, h), []
    for x_t in x:
        gated = [torch.cat([x_t, h], 1) @ w.T + b[k + 1] for k, w in enumerate(concatenated)]
        gate = Gates(x_t @ w_x[0].T + b[0], *gated, *([None] if not choices.discount else []))
        state = plain_step(state, gate, choices)
        h = plain_hidden(state, choices)
        expected.append(output(h, choices))
    result, final = layer(x)
    torch.testing.assert_close(result, torch.stack(expected), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(final.average[0], state.n / state.d, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(final.weight[0], state.d.log1p(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("cuts", [(1,), (19,), (7,), (1, 2, 3), (5, 6, 13), tuple(range(1, 20))])
def test_any_split_of_a_sequence_equals_the_whole(unit, cuts):
    torch.manual_seed(0)
    layer, x = rda.build(unit, 3, 16, num_layers=2), torch.randn(20, 4, 3)
    whole, final = layer(x)
    pieces, state = [], None
    for start, end in itertools.pairwise((0, *cuts, 20)):
        piece, state = layer(x[start:end], state)
        pieces.append(piece)
    # Carrying log(1 + d) rounds it once a cut: a few 1e-7 of a weight near 1.
    torch.testing.assert_close(torch.cat(pieces), whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(state.average, final.average, rtol=0, atol=1e-6)
    torch.testing.assert_close(state.weight, final.weight, rtol=1e-6, atol=1e-6)


def test_gradients_flow_through_a_carried_state():
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 5, dtype=torch.float64), torch.randn(8, 2, 3, dtype=torch.float64)
    whole = torch.autograd.grad(layer(x)[0].square().sum(), [*layer.parameters()])
    first, state = layer(x[:3])
    second, _ = layer(x[3:], state)
    loss = first.square().sum() + second.square().sum()
    split = torch.autograd.grad(loss, [*layer.parameters()])
    for a, b in zip(whole, split, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("garbage", [0.0, 7.0, 1e30, torch.inf, torch.nan])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("longer", [0, 3])
def test_padding_never_changes_a_result_bit_for_bit(garbage, reverse, longer):
    torch.manual_seed(0)
    lengths = torch.tensor([5, 0, 2, 4])
    projected, weight = torch.randn(5, 4, 12), torch.randn(9, 3)
    results = []
    for filling, extra in ((0.0, 0), (garbage, longer)):
        padded = torch.full((5 + extra, 4, 12), filling)
        for k, length in enumerate(lengths):
            padded[:length, k] = projected[:length, k]
        inputs = padded.requires_grad_(), weight.clone().requires_grad_()
        result, final = scan(*inputs, lengths=lengths, reverse=reverse)
        loss = result.square().sum() + final.r.sum()
        d_padded, d_weight = torch.autograd.grad(loss, inputs)
        assert torch.equal(result[5:], torch.zeros(extra, 4, 3))
        assert torch.equal(d_padded[5:], torch.zeros(extra, 4, 12))
        results.append((result[:5], *final, d_padded[:5], d_weight))
    for clean, dirty in zip(*results, strict=True):
        assert torch.equal(clean, dirty)


@pytest.mark.parametrize("unit", UNITS)
def test_the_padding_of_a_packed_sequence_never_changes_a_result(unit):
    torch.manual_seed(0)
    layer = rda.build(unit, 3, 4, num_layers=2, bidirectional=True)
    rows = [torch.randn(length, 3) for length in (2, 5, 3, 5)]
    from_rows = layer(pack_sequence(rows, enforce_sorted=False))
    padded = torch.full((9, 4, 3), torch.nan)
    for k, values in enumerate(rows):
        padded[: len(values), k] = values
    packed = pack_padded_sequence(padded, [len(values) for values in rows], enforce_sorted=False)
    from_padded = layer(packed)
    assert torch.equal(from_rows[0].data, from_padded[0].data)
    for a, b in zip(from_rows[1], from_padded[1], strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("unit", UNITS)
def test_packed_equals_one_by_one(unit):
    torch.manual_seed(0)
    layer = rda.build(unit, 3, 6, num_layers=2, bidirectional=True)
    rows = [torch.randn(length, 3) for length in (4, 9, 1, 6)]
    result, final = layer(pack_sequence(rows, enforce_sorted=False))
    padded, _ = pad_packed_sequence(result)
    for k, values in enumerate(rows):
        alone, last = layer(values)
        # The same sums in another order of the batch: a few float32 roundings.
        torch.testing.assert_close(padded[: len(values), k], alone, rtol=0, atol=1e-6)
        torch.testing.assert_close(final.average[:, k], last.average, rtol=0, atol=1e-6)
        torch.testing.assert_close(final.weight[:, k], last.weight, rtol=1e-6, atol=1e-6)


def test_a_row_of_no_length_keeps_its_state():
    torch.manual_seed(0)
    start = rda.functional.LogState(torch.randn(2, 3), torch.randn(2, 3))
    lengths = torch.tensor([0, 4])
    result, final = scan(torch.randn(4, 2, 12), torch.randn(9, 3), start, lengths=lengths)
    assert torch.equal(final.r[0], start.r[0])
    assert torch.equal(final.l[0], start.l[0])
    assert torch.equal(result[:, 0], torch.zeros(4, 3))


def test_both_directions_are_two_layers_side_by_side():
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4, bidirectional=True), torch.randn(6, 2, 3)
    forward, backward = rda.RDA(3, 4), rda.RDA(3, 4)
    weights = layer.state_dict()
    forward.load_state_dict({k: v for k, v in weights.items() if "reverse" not in k})
    backward.load_state_dict(
        {k.removesuffix("_reverse"): v for k, v in weights.items() if "reverse" in k}
    )
    expected = torch.cat([forward(x)[0], backward(x.flip(0))[0].flip(0)], dim=-1)
    assert torch.equal(layer(x)[0], expected)


def test_a_named_choice_reaches_the_output():
    torch.manual_seed(0)
    x = torch.randn(6, 2, 3)
    weights = rda.RDA(3, 4).state_dict()
    outputs = []
    for names in itertools.product(
        ("exp", "relu", "softplus", "sigmoid"), *(("identity", "tanh"),) * 2
    ):
        layer = rda.RDA(3, 4, **dict(zip(("attention", "hidden", "output"), names, strict=True)))
        layer.load_state_dict(weights)
        outputs.append(layer(x)[0])
    for one, other in itertools.combinations(outputs, 2):
        assert not torch.equal(one, other)


def test_a_module_may_be_the_attention_and_is_trained():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return nn.functional.softplus(self.scale * x)

    torch.manual_seed(0)
    layer = rda.RDA(3, 4, attention=Scaled())
    assert "attention.scale" in layer.state_dict()
    twin = copy.deepcopy(layer)
    assert twin.attention is not layer.attention
    x = torch.randn(5, 2, 3)
    layer(x)[0].sum().backward()
    assert layer.attention.scale.grad != 0
    assert twin.attention.scale.grad is None
    assert torch.equal(twin(x)[0], layer(x)[0])


def test_pickle_keeps_callables_and_engine():
    layer = rda.RDA(3, 4, hidden=torch.tanh, engine="reference")
    twin = pickle.loads(pickle.dumps(layer))
    assert twin.hidden is torch.tanh
    assert twin.engine == "reference"


@pytest.mark.parametrize(
    ("options", "error", "parts"),
    [
        ({"attention": "expo"}, ValueError, ["attention", "'expo'", "Did you mean 'exp'"]),
        ({"hidden": "id"}, ValueError, ["hidden", "Did you mean 'identity'"]),
        ({"output": "tahn"}, ValueError, ["output", "Did you mean 'tanh'"]),
        ({"attention": 3}, TypeError, ["attention", "int"]),
        ({"engine": "referense"}, ValueError, ["engine", "Did you mean 'reference'"]),
        ({"engine": None}, TypeError, ["engine", "NoneType"]),
        ({"learn_initial_state": 1}, TypeError, ["learn_initial_state", "int"]),
        ({"dtype": torch.complex64}, RuntimeError, ["floating point", "complex64"]),
    ],
)
def test_a_wrong_choice_is_named_with_the_nearest_right_one(options, error, parts):
    with pytest.raises(error) as caught:
        rda.RDA(3, 4, **options)
    for part in parts:
        assert part in str(caught.value)


def test_repr_tells_what_is_not_the_default():
    assert repr(rda.RDA(3, 4)) == "RDA(3, 4)"
    assert repr(rda.RWA(3, 4)) == "RWA(3, 4)"
    layer = rda.RDA(3, 4, 2, attention="sigmoid", hidden=torch.tanh, learn_initial_state=True)
    expected = "RDA(3, 4, num_layers=2, attention=sigmoid, hidden=tanh, learn_initial_state=True)"
    assert repr(layer) == expected
    assert repr(rda.RDA(3, 4, engine="reference")) == "RDA(3, 4, engine=reference)"
    assert "attention=Softplus" in repr(rda.RDA(3, 4, attention=nn.Softplus()))


def test_learned_start_gives_way_to_a_given_state():
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4, learn_initial_state=True), torch.randn(5, 2, 3)
    with torch.no_grad():
        layer.initial_average.normal_()
    zeros = torch.zeros(1, 2, 4)
    learned, started, absent = (
        layer(x)[0],
        layer(x, (layer.initial_average.unsqueeze(1).expand(1, 2, 4), zeros))[0],
        layer(x, (zeros, zeros))[0],
    )
    assert torch.equal(learned, started)
    assert not torch.equal(learned, absent)


def test_a_float32_state_stays_so_in_a_bfloat16_layer():
    layer = rda.RDA(3, 4, dtype=torch.bfloat16)
    state = rda.State(torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
    result, state = layer(torch.randn(5, 2, 3, dtype=torch.bfloat16), state)
    assert (result.dtype, state.average.dtype) == (torch.bfloat16, torch.float32)
    assert state.weight.dtype == torch.float32


def test_reparametrised_weights_are_used():
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4), torch.randn(5, 2, 3)
    before, _ = layer(x)
    nn.utils.parametrizations.weight_norm(layer, "weight_hh_l0")
    torch.testing.assert_close(layer(x)[0], before)
    with torch.no_grad():
        layer.parametrizations.weight_hh_l0.original0 *= 3.0
    assert not torch.allclose(layer(x)[0], before)


def test_default_choices_are_the_papers():
    assert rda.RDA(1, 1).choices == Choices("exp", "identity", "tanh", discount=True)
    assert rda.RWA(1, 1).choices == Choices("exp", "tanh", "identity", discount=False)


def test_dropout_is_between_layers_and_keeps_the_scale():
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4, num_layers=2, dropout=0.5), torch.randn(5, 2, 3)
    lower, upper = rda.RDA(3, 4), rda.RDA(4, 4)
    weights = layer.state_dict()
    lower.load_state_dict({k: v for k, v in weights.items() if "_l0" in k})
    upper.load_state_dict({k.replace("_l1", "_l0"): v for k, v in weights.items() if "_l1" in k})
    torch.manual_seed(1)
    dropped, _ = layer(x)
    torch.manual_seed(1)
    between = nn.functional.dropout(lower(x)[0], 0.5)
    assert torch.equal(dropped, upper(between)[0])


def test_a_learned_start_is_zero_at_first_and_reaches_its_own_layer_and_direction():
    torch.manual_seed(0)
    layer = rda.RDA(3, 4, num_layers=2, bidirectional=True, learn_initial_state=True)
    assert torch.equal(layer.initial_average, torch.zeros(4, 4))
    with torch.no_grad():
        layer.initial_average.normal_()
    x, zeros = torch.randn(5, 2, 3), torch.zeros(4, 2, 4)
    given = layer.initial_average.detach()[:, None].expand(4, 2, 4)
    assert torch.equal(layer(x)[0], layer(x, (given, zeros))[0])
    with torch.no_grad():
        layer.reset_parameters()
    assert torch.equal(layer.initial_average, torch.zeros(4, 4))


def test_no_history_is_replaced_exactly_by_the_first_features():
    """At a share of 1 the average is z to the last bit, whatever stood there before."""
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4, output="identity"), torch.randn(1, 2, 3)
    with torch.no_grad():
        layer.weight_hh_l0.zero_()
    zeros = torch.zeros(1, 2, 4)
    from_afar, _ = layer(x, (torch.full((1, 2, 4), 1e8), zeros))
    assert torch.equal(from_afar, layer(x)[0])


def test_the_backward_pass_is_not_quadratic_in_time():
    """Indexing projected[t] would make a full-size gradient at every step; unbind makes one."""
    layer = rda.RDA(3, 4, engine="reference")
    output, _ = layer(torch.randn(6, 2, 3))
    seen, waiting = set(), [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting.extend(parent for parent, _ in node.next_functions)
    names = {type(node).__name__ for node in seen}
    assert "UnbindBackward0" in names
    selections = [node for node in seen if type(node).__name__ == "SelectBackward0"]
    assert not selections


def test_autocast_leaves_float64_and_the_inside_of_a_layer_alone():
    seen = []

    def watched(r):
        seen.append((r.dtype, torch.is_autocast_enabled("cpu")))
        return r

    with torch.autocast("cpu", torch.bfloat16):
        exact, _ = rda.RDA(3, 4, dtype=torch.float64)(torch.randn(5, 2, 3, dtype=torch.float64))
        rda.RDA(3, 4, hidden=watched)(torch.randn(5, 2, 3))
    assert exact.dtype == torch.float64
    assert set(seen) == {(torch.float32, False)}


def test_scan_under_autocast_is_the_layer_under_autocast():
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4), torch.randn(5, 2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        expected, _ = layer(x)
        given = {"input_weight": layer.weight_ih_l0, "bias": layer.bias_l0}
        assert torch.equal(scan(x, layer.weight_hh_l0, **given)[0], expected)
        projected = nn.functional.linear(x, layer.weight_ih_l0, layer.bias_l0)
        assert projected.dtype == torch.bfloat16
        for already in (projected, projected.float()):
            result, _ = scan(already, layer.weight_hh_l0)
            assert result.dtype == torch.bfloat16
            # bfloat16 has 8 bits: the projection's rounding is 4e-3 of values near 1.
            torch.testing.assert_close(result, expected, rtol=0, atol=2e-2)


@pytest.mark.parametrize("choice", ["attention", "hidden", "output"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_module_with_parameters_works_in_every_dtype(choice, dtype):
    module = nn.Sequential(nn.PReLU(), nn.Softplus())
    layer = rda.RDA(3, 4, **{choice: module}).to(dtype)
    result, _ = layer(torch.randn(5, 2, 3, dtype=dtype))
    result.float().sum().backward()
    assert result.dtype == dtype
    assert module[0].weight.grad.isfinite().all()


def test_subnormal_weights_and_attentions_give_finite_gradients():
    """1 / 1e-40 overflows float32, so what is lighter than a normal number counts as nothing."""
    weight = torch.tensor([1e-40, 1e-37], requires_grad=True)
    l = rda.functional.log_from_weight(weight)
    l.exp().sum().backward()
    assert l[0] == -torch.inf
    assert weight.grad.isfinite().all()
    attention = torch.tensor([1e-40, 1e-37], requires_grad=True)
    log_attention = log_of_weight(attention)
    log_attention.exp().sum().backward()
    assert log_attention[0] == -torch.inf
    assert attention.grad.isfinite().all()


def test_resetting_reaches_a_parametrised_weight():
    torch.manual_seed(0)
    layer = rda.RDA(3, 4)
    nn.utils.parametrizations.weight_norm(layer, "weight_hh_l0")
    before = layer.weight_hh_l0.clone()
    layer.reset_parameters()
    assert not torch.equal(before, layer.weight_hh_l0)


def test_a_class_in_place_of_an_instance_is_refused():
    with pytest.raises(TypeError, match="class Softplus"):
        rda.RDA(3, 4, attention=nn.Softplus)
