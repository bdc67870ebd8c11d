"""LSTM and GRU compiled for the CPU equal torch's own, with the same weights."""

import copy

import pytest
import torch
from torch import nn

import rda
from rda.baselines import GRU, LSTM

PAIRS = {"LSTM": (LSTM, nn.LSTM), "GRU": (GRU, nn.GRU)}
ROUNDING = {torch.float32: 2e-5, torch.float64: 1e-12}
"""A few hundred roundings of numbers of about 1, in sequences of at most 40 steps."""

pytestmark = pytest.mark.needs_compiler


def both(name, dtype=torch.float32, *sizes, **options):
    ours, theirs = PAIRS[name]
    torch.manual_seed(0)
    mine = ours(*sizes, engine="cpu", dtype=dtype, **options)
    other = theirs(*sizes, dtype=dtype, **options)
    other.load_state_dict(mine.state_dict())
    return mine, other


def parts(state):
    return state if isinstance(state, tuple) else (state,)


def results(layer, x, start):
    """The output, the final state, and the gradients of everything."""
    x = x.detach().requires_grad_()
    start = None if start is None else tuple(part.detach().requires_grad_() for part in start)
    given = start[0] if start is not None and len(start) == 1 else start
    output, final = layer(x, given)
    total = output.square().sum() + sum(part.sin().sum() for part in parts(final))
    wanted = [x, *(start or ()), *layer.parameters()]
    return [output, *parts(final), *torch.autograd.grad(total, wanted)]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize(
    ("time", "batch", "inputs", "units", "options"),
    [
        (1, 1, 1, 1, {}),
        (2, 3, 4, 5, {"bias": False}),
        (7, 1, 3, 33, {"num_layers": 2, "bidirectional": True}),
        (40, 19, 6, 37, {"batch_first": True}),
        (5, 100, 10, 250, {}),
    ],
)
@pytest.mark.parametrize("has_start", [False, True])
def test_outputs_states_and_gradients(name, dtype, time, batch, inputs, units, options, has_start):
    mine, other = both(name, dtype, inputs, units, **options)
    x = torch.randn(time, batch, inputs, dtype=dtype)
    if options.get("batch_first"):
        x = x.transpose(0, 1)
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    count = 2 if name == "LSTM" else 1
    start = [torch.randn(rows, batch, units, dtype=dtype) for _ in range(count)]
    assert mine.engine_for(x) == "cpu"
    found = results(mine, x, start if has_start else None)
    expected = results(other, x, start if has_start else None)
    for ours, theirs in zip(found, expected, strict=True):
        scale = max(1.0, float(theirs.detach().abs().max()))
        torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=ROUNDING[dtype])


@pytest.mark.parametrize("name", PAIRS)
def test_second_derivatives_are_torchs(name):
    mine, other = both(name, torch.float64, 3, 5)
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    found = []
    for layer in (mine, other):
        given = x.clone().requires_grad_()
        first = torch.autograd.grad(layer(given)[0].sin().sum(), given, create_graph=True)[0]
        found.append(torch.autograd.grad(first.square().sum(), [given, *layer.parameters()]))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_without_gradients_nothing_is_kept_and_the_result_is_the_same(name):
    mine, _ = both(name, torch.float32, 3, 5)
    x = torch.randn(6, 2, 3)
    with torch.no_grad():
        quiet, _ = mine(x)
    assert not quiet.requires_grad
    torch.testing.assert_close(quiet, mine(x)[0], rtol=0, atol=0)


@pytest.mark.parametrize("name", PAIRS)
def test_what_it_does_not_do_goes_to_torch(name):
    ours, _ = PAIRS[name]
    x = torch.randn(5, 3, 6)
    assert ours(6, 4).engine_for(x) == "cpu"
    assert ours(6, 4, engine="torch").engine_for(x) == "torch.nn"
    assert ours(6, 4).engine_for(x[0]) == "torch.nn"


@pytest.mark.parametrize("name", PAIRS)
def test_compiled_as_one_graph(name):
    layer, other = both(name, torch.float32, 6, 4, num_layers=2)
    x = torch.randn(5, 3, 6)
    whole = torch.compile(layer, backend="aot_eager", fullgraph=True)
    found, expected = whole(x)[0], other(x)[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING[torch.float32])
    gradients = [
        torch.autograd.grad(each.square().sum(), list(of.parameters()))
        for each, of in ((found, layer), (expected, other))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=ROUNDING[torch.float32])


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_and_ragged_sequences(name, bidirectional):
    layer, other = both(name, torch.float64, 6, 4, num_layers=2, bidirectional=bidirectional)
    lengths = torch.tensor([2, 5, 3])
    x = torch.randn(5, 3, 6, dtype=torch.float64)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    found, final = layer(packed)
    expected, last = other(packed)
    torch.testing.assert_close(found.data, expected.data, rtol=0, atol=1e-12)
    padded, also_final = layer(x, lengths=lengths)
    again, _ = nn.utils.rnn.pad_packed_sequence(expected, total_length=5)
    torch.testing.assert_close(padded, again, rtol=0, atol=1e-12)
    for state in (final, also_final):
        torch.testing.assert_close(parts(state), parts(last), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("has_start", [False, True])
def test_rows_without_steps_in_torch_s_own_too(name, batch_first, has_start):
    torch.manual_seed(0)
    options = {"num_layers": 2, "bidirectional": True, "batch_first": batch_first}
    layer, torchs = (
        rda.build(name, 6, 4, **options, learn_initial_state=True, engine=engine).double()
        for engine in ("cpu", "torch")
    )
    for each, parameter in layer.named_parameters():
        if each.startswith("initial_"):
            nn.init.normal_(parameter)
    torchs.load_state_dict(layer.state_dict())
    x, lengths = torch.randn(5, 3, 6, dtype=torch.float64), torch.tensor([3, 0, 5])
    x = x.transpose(0, 1).contiguous() if batch_first else x
    start = torch.randn(2, 4, 3, 4, dtype=torch.float64)
    given = None if not has_start else start[0] if name == "GRU" else tuple(start)
    found, expected = (each(x, given, lengths=lengths) for each in (torchs, layer))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    nobody, no_lengths = torch.zeros(5, 0, 6, dtype=torch.float64), lengths[:0]
    nobody = nobody.transpose(0, 1) if batch_first else nobody
    assert torchs(nobody, lengths=no_lengths)[0].numel() == 0


@pytest.mark.parametrize("name", PAIRS)
def test_in_bfloat16_and_under_autocast(name):
    layer, _ = both(name, torch.float32, 6, 4)
    x = torch.randn(5, 3, 6)
    expected = layer(x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        under = layer(x)
    rounded = copy.deepcopy(layer).bfloat16()(x.bfloat16())
    for output, final in (under, rounded):
        assert output.dtype == parts(final)[0].dtype == torch.bfloat16
        # A bfloat16 has 8 bits, and weights, inputs and outputs are rounded to it.
        torch.testing.assert_close(output.float(), expected, rtol=0, atol=2e-2)


@pytest.mark.parametrize("name", PAIRS)
class TestStates:
    def start(self, name, dtype=torch.float32):
        made = tuple(torch.zeros(1, 2, 5, dtype=dtype) for _ in range(2))
        return made if name == "LSTM" else made[0]

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.bool])
    def test_of_another_dtype_are_refused(self, name, dtype):
        layer, _ = both(name, torch.float32, 3, 5)
        with pytest.raises(RuntimeError, match=r"one dtype, got torch\.float32 and"):
            layer(torch.randn(4, 2, 3), self.start(name, dtype))

    def test_and_so_is_an_input_that_autocast_leaves_alone(self, name):
        layer, _ = both(name, torch.float32, 3, 5)
        with (
            torch.autocast("cpu", torch.bfloat16),
            pytest.raises(RuntimeError, match=r"one dtype, got torch\.float64 and"),
        ):
            layer(torch.randn(4, 2, 3, dtype=torch.float64))

    def test_have_batched_gradients(self, name):
        layer, other = both(name, torch.float64, 2, 3)
        x = torch.randn(3, 2, 2, dtype=torch.float64)
        found, exact = (
            torch.autograd.functional.jacobian(
                lambda v, of=of: parts(of(v)[1])[0], x, vectorize=True
            )
            for of in (layer, other)
        )
        torch.testing.assert_close(found, exact, rtol=0, atol=1e-12)

    def test_with_a_forward_gradient_go_to_torch(self, name):
        layer = PAIRS[name][0](3, 5, dtype=torch.float64).requires_grad_(False)
        start = parts(self.start(name, torch.float64))
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(start[0], torch.ones_like(start[0]))
            state = (dual, *start[1:]) if name == "LSTM" else dual
            output, _ = layer(torch.randn(4, 2, 3, dtype=torch.float64), state)
            assert torch.autograd.forward_ad.unpack_dual(output).tangent is not None


def test_an_lstm_has_two_states():
    x, part = torch.randn(4, 2, 3), torch.zeros(1, 2, 5)
    with pytest.raises(RuntimeError, match="hx should have 2 tensors, got 3"):
        LSTM(3, 5)(x, (part, part, part))
    with pytest.raises(TypeError, match="hx should be a tuple of tensors, got: Tensor"):
        LSTM(3, 5)(x, torch.zeros(2, 1, 2, 5))
