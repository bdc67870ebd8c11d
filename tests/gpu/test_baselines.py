"""LSTM and GRU on our engines equal torch's, with interchangeable weights."""

import pytest
import torch
from comparing import PAIRS, TOLERANCE, replayed_and_run
from comparing import baseline_error as error
from torch import nn

from rda.baselines import GRU, LSTM


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("time", "batch", "units", "layers", "both", "batch_first"),
    [
        (1, 1, 3, 1, False, False),
        (2, 8, 32, 1, True, True),
        (20, 9, 37, 2, True, True),
        (40, 17, 250, 1, False, False),
        (7, 100, 256, 1, True, False),
        (9, 7, 600, 1, True, False),
    ],
)
def test_outputs_states_and_gradients(
    name, product, bias, time, batch, units, layers, both, batch_first
):
    options = {"num_layers": layers, "bidirectional": both, "batch_first": batch_first}
    assert error(name, product, time, batch, units, bias, **options) < TOLERANCE[product]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    "units", [1, 2, 31, 33, 64, 127, 128, 129, 250, 255, 257, 384, 511, 512, 1023, 1800]
)
def test_every_size(name, product, units):
    assert error(name, product, 7, 9, units) < TOLERANCE[product]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("batch", [1, 7, 8, 100, 257])
@pytest.mark.parametrize("units", [130, 600])
def test_every_number_of_rows(name, product, batch, units):
    assert error(name, product, 4, batch, units) < TOLERANCE[product]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("time", [1, 2, 3, 73, 2000])
@pytest.mark.parametrize("units", [40, 520])
def test_short_and_long_sequences(name, product, time, units):
    assert error(name, product, time, 5, units) < TOLERANCE[product]


@pytest.mark.parametrize("name", PAIRS)
def test_no_state_is_zeros(name, product):
    ours, _ = PAIRS[name]
    torch.manual_seed(0)
    layer = ours(6, 50, num_layers=2).cuda()
    x = torch.randn(9, 4, 6, device="cuda")
    zeros = torch.zeros(2, 4, 50, device="cuda")
    gradients = []
    for state in (None, (zeros, zeros) if name == "LSTM" else zeros):
        output, _ = layer(x, state)
        gradients.append(torch.autograd.grad(output.sum(), list(layer.parameters())))
    for without, given in zip(*gradients, strict=True):
        torch.testing.assert_close(without, given)


def test_the_size_chooses_the_engine():
    for units, dtype, engine in (
        (40, torch.float32, "block"),
        (40, torch.bfloat16, "cuda"),
        (400, torch.float32, "cuda"),
        (600, torch.float32, "graph"),
        (600, torch.bfloat16, "grid"),
        (602, torch.bfloat16, "graph"),
    ):
        layer = GRU(6, units).to("cuda", dtype)
        assert layer.engine_for(torch.randn(3, 7, 6, device="cuda", dtype=dtype)) == engine


@pytest.mark.parametrize("name", PAIRS)
def test_what_the_engine_does_not_do_goes_to_torch(name):
    ours, _ = PAIRS[name]
    x = torch.randn(5, 3, 6, device="cuda")
    assert ours(6, 20, engine="torch").cuda().engine_for(x) == "cuDNN"
    assert ours(6, 20).cuda().double().engine_for(x.double()) == "cuDNN"
    layer = ours(6, 20).cuda()
    with torch.autocast("cuda", torch.float16):
        assert layer.engine_for(x) == "cuDNN"
        assert layer(x)[0].dtype == torch.float16


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("units", [20, 140, 600])
def test_packed_sequences_and_lengths(name, units):
    ours, theirs = PAIRS[name]
    torch.manual_seed(0)
    layer, other = ours(6, units, bidirectional=True).cuda(), theirs(6, units, bidirectional=True)
    other.load_state_dict(layer.state_dict())
    lengths = torch.tensor([2, 5, 3])
    x = torch.randn(5, 3, 6)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    expected = nn.utils.rnn.pad_packed_sequence(other(packed)[0])[0]
    found = nn.utils.rnn.pad_packed_sequence(layer(packed.to("cuda"))[0])[0]
    ragged = layer(x.cuda(), lengths=lengths.cuda())[0]
    for each in (found, ragged):
        torch.testing.assert_close(each.cpu(), expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("engine", ["torch", "auto"])
@pytest.mark.parametrize("units", [20, 140, 600])
def test_padding_of_nan_reaches_no_gradient(name, engine, units):
    layer = PAIRS[name][0](6, units, engine=engine).cuda()
    x = torch.randn(5, 3, 6, device="cuda")
    lengths = torch.tensor([2, 5, 0], device="cuda")
    for k, length in enumerate(lengths):
        x[length:, k] = torch.nan
    layer(x, lengths=lengths)[0].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("name", PAIRS)
def test_ragged_float16_is_compiled_as_one_graph(name):
    """Without `lengths` cuDNN runs it, which would have to pack the batch."""
    layer = PAIRS[name][0](6, 40).cuda().half()
    x = torch.randn(5, 3, 6, device="cuda", dtype=torch.float16)
    lengths = torch.tensor([2, 5, 0], device="cuda")
    found = torch.compile(layer, fullgraph=True)(x, lengths=lengths)[0]
    torch.testing.assert_close(found, layer(x, lengths=lengths)[0], rtol=0, atol=5e-3)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("units", [40, 140, 600])
def test_compiled_as_one_graph(name, units):
    layer = PAIRS[name][0](6, units).cuda()
    x = torch.randn(5, 3, 6, device="cuda")
    whole = torch.compile(layer, fullgraph=True)
    torch.testing.assert_close(whole(x)[0], layer(x)[0], rtol=0, atol=0)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("units", [20, 40, 250, 600, 1800])
def test_under_autocast_it_is_the_layer_in_bfloat16(name, units):
    """The same kernels on the same numbers; weights and their gradients stay in float32."""
    ours, _ = PAIRS[name]
    torch.manual_seed(1)
    layer = ours(6, units).cuda()
    half = ours(6, units).to("cuda", torch.bfloat16)
    half.load_state_dict(layer.state_dict())
    x = torch.randn(9, 12, 6, device="cuda", requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        assert layer.engine_for(x) == half.engine_for(x.bfloat16()) != "cuDNN"
        output, state = layer(x)
        output, state = layer(x, state)
    expected, carried = half(x.bfloat16())
    expected, carried = half(x.bfloat16(), carried)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    for ours_part, theirs in zip(_parts(state), _parts(carried), strict=True):
        torch.testing.assert_close(ours_part, theirs, rtol=0, atol=0)
    gradients = torch.autograd.grad(output.float().square().sum(), list(layer.parameters()))
    others = torch.autograd.grad(expected.float().square().sum(), list(half.parameters()))
    for ours_part, theirs in zip(gradients, others, strict=True):
        assert ours_part.dtype == torch.float32
        # Both are computed in bfloat16 and differ only in when they are rounded to it.
        torch.testing.assert_close(ours_part, theirs.float(), rtol=0.01, atol=0.01)


def _parts(state):
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize("name", PAIRS)
def test_a_wrong_state_gets_torchs_own_error(name):
    ours, _ = PAIRS[name]
    layer = ours(6, 20).cuda()
    state = torch.zeros(1, 2, 20, device="cuda")
    with pytest.raises(RuntimeError, match="Expected hidden"):
        layer(torch.randn(5, 3, 6, device="cuda"), (state, state) if name == "LSTM" else state)


def test_the_batch_chooses_the_engine_whatever_the_layout():
    many = torch.randn(3, 600, 6, device="cuda")
    assert LSTM(6, 400).cuda().engine_for(many) == "graph"
    assert LSTM(6, 400, batch_first=True).cuda().engine_for(many) == "cuda"
    assert LSTM(6, 400, batch_first=True).cuda().engine_for(many.transpose(0, 1)) == "graph"


@pytest.mark.parametrize("name", PAIRS)
def test_a_state_on_another_device_is_refused(name):
    ours, _ = PAIRS[name]
    state = torch.zeros(1, 3, 20)
    with pytest.raises(RuntimeError, match="on one device"):
        ours(6, 20).cuda()(
            torch.randn(5, 3, 6, device="cuda"), (state, state) if name == "LSTM" else state
        )


@pytest.mark.parametrize("name", PAIRS)
def test_another_dtype_gets_torchs_own_error(name):
    ours, _ = PAIRS[name]
    with pytest.raises(ValueError, match="dtype"):
        ours(6, 20).cuda()(torch.randn(5, 3, 6, device="cuda", dtype=torch.bfloat16))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("units", [40, 600])
def test_weights_that_lie_otherwise(name, units):
    ours, _ = PAIRS[name]
    torch.manual_seed(0)
    layer = ours(6, units).cuda()
    x = torch.randn(5, 3, 6, device="cuda")
    expected, _ = layer(x)
    turned = layer.weight_hh_l0.detach().t().contiguous().t()
    layer.weight_hh_l0 = nn.Parameter(turned)
    assert not layer.weight_hh_l0.is_contiguous()
    assert torch.equal(layer(x)[0], expected)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("units", [40, 600])
def test_a_cuda_graph_replays_it(name, units):
    ours, _ = PAIRS[name]
    torch.manual_seed(0)
    layer = ours(6, units).cuda()
    x = torch.randn(9, 4, 6, device="cuda")
    assert all(map(torch.equal, *replayed_and_run(layer, x)))


def test_torch_func_goes_to_torch():
    layer, theirs = LSTM(6, 20).cuda(), nn.LSTM(6, 20).cuda()
    x = torch.randn(5, 3, 6, device="cuda")
    for module in (layer, theirs):  # cuDNN does not support torch.func, and raises
        with pytest.raises(NotImplementedError, match="TensorWrapper"):
            torch.func.grad(lambda x, module=module: module(x)[0].sum())(x)
    with torch.backends.cudnn.flags(enabled=False):
        found = torch.func.grad(lambda x: layer(x)[0].sum())(x)
    (exact,) = torch.autograd.grad(layer(x.requires_grad_())[0].sum(), [x])
    torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-4)
