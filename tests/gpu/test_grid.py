"""The engine on the whole GPU equals the reference; it multiplies in bf16 alone."""

import pytest
import torch
from comparing import (
    PAIRS,
    RDA,
    RWA,
    TOLERANCE,
    a_thousand_agree,
    baseline_error,
    check_op,
    distance,
    draw,
    error,
    on_another_stream,
    packed_error,
    plain_and_compiled,
    replayed_and_run,
    run,
    split_and_whole,
    stays_finite,
)

import rda
from rda.activations import Choices
from rda.cli import main
from rda.scan import dispatch
from rda.scan.cuda import grid
from rda.scan.dispatch import EngineUnavailableError, scan, select
from rda.scan.engines import ENGINES
from rda.units import LSTM

LIMIT = TOLERANCE["bf16"]


@pytest.fixture(autouse=True)
def _only_hopper():
    if torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs Hopper's tensor cores")


def layer_of(units, **options):
    torch.manual_seed(0)
    return rda.RDA(5, units, engine="grid", **options).to("cuda", torch.bfloat16)


def input_of(time, batch):
    return torch.randn(time, batch, 5, device="cuda", dtype=torch.bfloat16)


@pytest.mark.parametrize("units", [100, 1200])
def test_every_choice(units, choices):
    assert error("grid", 13, 11, units, choices, "bf16") < LIMIT


# Around where blocks have 8 or 16 units, and where the last one has few.
@pytest.mark.parametrize(
    "units", [36, 64, 100, 128, 132, 256, 500, 952, 960, 964, 1000, 1024, 1056, 1060, 1800, 2048]
)
@pytest.mark.parametrize("choices", [RDA, RWA], ids=["RDA", "RWA"])
def test_every_size(units, choices):
    assert error("grid", 7, 9, units, choices, "bf16") < LIMIT


@pytest.mark.parametrize("batch", [1, 7, 8, 63, 64, 65, 128, 129, 257])
@pytest.mark.parametrize("units", [132, 1100])
def test_every_number_of_rows(batch, units):
    assert error("grid", 5, batch, units, RDA, "bf16") < LIMIT


@pytest.mark.parametrize("time", [1, 2, 3, 4, 5, 73, 2000])
@pytest.mark.parametrize("choices", [RDA, RWA], ids=["RDA", "RWA"])
def test_short_and_long_sequences(time, choices):
    assert error("grid", time, 5, 40, choices, "bf16") < LIMIT


@pytest.mark.parametrize("reverse", [False, True])
def test_ragged_rows_in_both_directions(choices, reverse):
    lengths = [20, 3, 0, 11, 20, 1, 19, 7, 20] * 15
    assert error("grid", 20, len(lengths), 68, choices, "bf16", lengths, reverse) < LIMIT


def test_a_split_sequence_is_the_whole():
    assert all(map(torch.equal, *split_and_whole("grid", 70, 1032, "bf16")))


def test_logits_of_any_size_stay_finite(choices):
    assert stays_finite("grid", 36, choices, "bf16")


@pytest.mark.parametrize("units", [252, 1800])
def test_a_thousand_launches_are_identical(units):
    assert a_thousand_agree("grid", 20, units, "bf16")


def test_streams_do_not_lock_one_another():
    """Two kernels that each need the whole GPU, again and again, beside one in their way."""
    layers = [layer_of(units) for units in (1024, 1800)]
    x = input_of(40, 70)
    with torch.no_grad():
        expected = [layer(x)[0] for layer in layers]
        streams = [torch.cuda.Stream() for _ in range(3)]
        torch.cuda.synchronize()
        found = []
        square = torch.randn(4096, 4096, device="cuda")
        for _ in range(20):
            for layer, stream in zip(layers, streams, strict=False):
                with torch.cuda.stream(stream):
                    found.append(layer(x)[0])
            with torch.cuda.stream(streams[2]):
                square @ square
        torch.cuda.synchronize()
    assert all(torch.equal(one, expected[k % 2]) for k, one in enumerate(found))


@pytest.mark.parametrize("units", [100, 1800])
def test_a_cuda_graph_replays_it(units):
    assert all(map(torch.equal, *replayed_and_run(layer_of(units), input_of(17, 6))))


def test_torch_compile_takes_it_whole():
    for plain, traced in plain_and_compiled(layer_of(100), input_of(17, 6).requires_grad_()):
        torch.testing.assert_close(plain, traced)


def test_layers_directions_and_packing():
    assert packed_error("grid", 100, torch.bfloat16) < LIMIT


def test_a_gradient_that_begins_anywhere():
    layer, x = layer_of(100), input_of(9, 6)
    loose = torch.randn(9 * 6 * 100 + 1, device="cuda").bfloat16()
    gradients = []
    for given in (loose[1:].view(9, 6, 100), loose[1:].clone().view(9, 6, 100)):
        output, _ = layer(x)
        gradients.append(torch.autograd.grad(output, list(layer.parameters()), given))
    found, expected = ([part.double() for part in each] for each in gradients)
    assert distance(found, expected) < LIMIT


def test_rows_that_have_ended_may_hold_anything():
    tensors = [t.to("cuda", torch.bfloat16) for t in draw(20, 70, 68, 6, RDA)[:4]]
    lengths = torch.arange(70, device="cuda") % 21
    beyond = (torch.arange(20, device="cuda")[:, None] >= lengths).unsqueeze(-1)
    results = []
    for filler in (0.0, float("nan")):
        x, weight, input_weight, bias = (t.clone() for t in tensors)
        x.masked_fill_(beyond, filler)
        inputs = [t.requires_grad_() for t in (weight, input_weight, bias)]
        output, final = scan(
            x, weight, input_weight=input_weight, bias=bias, lengths=lengths, engine="grid"
        )
        weights = torch.ones_like(output).masked_fill_(beyond, filler)
        gradients = torch.autograd.grad(
            (output, *final), inputs, (weights, *map(torch.ones_like, final))
        )
        results.append((output, *final, gradients[0]))
    assert all(map(torch.equal, *results))


def test_a_start_far_from_zero():
    """Where tanh is nearly flat, and its slope must still have its digits."""
    choices = Choices("exp", "tanh", "identity")
    tensors = draw(3, 9, 100, 6, choices)
    tensors[4][:] = 4.0 + 0.1 * tensors[4]
    found = run(tensors, choices, "grid", torch.float32, "bf16")
    exact = run(tensors, choices, "reference", torch.float64, "bf16")
    assert distance(found, exact) < LIMIT


def test_autocast_and_inference_mode():
    torch.manual_seed(0)
    layer = rda.RDA(5, 100, engine="grid").cuda()
    exact = rda.RDA(5, 100, engine="reference").cuda()
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(17, 6, 5, device="cuda")
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
        found, _ = layer(x)
    assert found.dtype == torch.bfloat16
    assert distance([found.double()], [exact.double()(x.double())[0]]) < LIMIT


def test_another_stream_is_kept_in_order():
    layer, x = layer_of(1800), input_of(300, 6)
    expected, _ = layer(x)
    found, total = on_another_stream(layer, x)
    assert torch.equal(found, expected)
    assert torch.equal(total, expected.sum())


def test_the_op_is_registered_as_torch_demands():
    check_op("grid", 40, torch.bfloat16)


def test_sizes_that_torch_compile_does_not_know():
    compiled = torch.compile(scan, fullgraph=True, dynamic=True)
    for units in (100, 200, 600):
        projected = torch.randn(5, 3, 4 * units, device="cuda", dtype=torch.bfloat16)
        weight = torch.randn(3 * units, units, device="cuda", dtype=torch.bfloat16) / units**0.5
        found, expected = compiled(projected, weight)[0], scan(projected, weight)[0]
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("key", "gates", "units"),
    [
        *((dispatch.unit_of(RDA)[1], 3, units) for units in (100, 600, 1024, 1800, 2112)),
        (LSTM().key, 4, 1800),
    ],
)
def test_layouts_know_their_shared_memory(key, gates, units):
    text = ENGINES["grid"].kernel(key, torch.bfloat16, "bf16").unit
    for direction in ("forward", "backward"):
        layout, module = grid._prepared(0, text, units, gates, direction)
        _, used = module._functions[direction]
        assert 0 <= used - layout.shared_bytes < 128  # of alignment


def test_an_empty_batch():
    output, state = layer_of(40)(input_of(7, 0))
    assert output.shape == (7, 0, 40)
    assert state.average.shape == (1, 0, 40)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    ("batch", "units"),
    [
        *((7, 600), (70, 1100), (257, 100), (5, 1600)),
        # Sums through memory, with 1, 3, 0, 0 and 2 times four units after the last k-step.
        *((5, 1604), (66, 1612), (5, 1616), (5, 1748), (130, 1800)),
    ],
)
def test_lstm_and_gru(name, batch, units, monkeypatch):
    monkeypatch.setattr("rda.scan.cuda.choosing.QUICKER_ON_GRID", range(1000))
    monkeypatch.setattr("rda.scan.cuda.choosing.BLOCKS_BESIDE_GRID", 0)
    monkeypatch.setattr("rda.scan.cuda.choosing.MOST_ROWS_OF_GRID", 1000)
    layer = PAIRS[name][0](6, units, bidirectional=True).to("cuda", torch.bfloat16)
    x = torch.randn(9, batch, 6, device="cuda", dtype=torch.bfloat16)
    assert layer.engine_for(x) == "grid"
    assert baseline_error(name, "bf16", 9, batch, units, bidirectional=True) < LIMIT


def test_auto_takes_it_for_large_layers_in_bf16():
    weight = torch.empty(3 * 1800, 1800, device="cuda", dtype=torch.bfloat16)
    for batch, engine in ((1, "grid"), (192, "grid"), (193, "graph")):
        x = torch.empty(5, batch, 4 * 1800, device="cuda", dtype=torch.bfloat16)
        assert select("auto", x, RDA, weight).name == engine
        assert select("auto", x.float(), RDA, weight.float()).name == "graph"


def test_the_doctor_finds_it_right(capsys):
    assert main(["doctor", "--device", "cuda", "--dtype", "bfloat16", "--units", "1800"]) == 0
    told = capsys.readouterr().out
    assert "\ngrid        right" in told
    assert "in bfloat16: engine grid" in told


@pytest.mark.parametrize(
    ("units", "dtype", "reason"),
    [
        (102, torch.bfloat16, "a multiple of 4 units, and this layer has 102"),
        (4096, torch.bfloat16, "4096 units are more than this GPU's shared memory holds"),
        (100, torch.float32, "it multiplies in bf16, and this is tf32"),
    ],
)
def test_what_it_cannot_do_is_said(units, dtype, reason):
    layer = rda.RDA(5, units, engine="grid").to("cuda", dtype)
    with pytest.raises(EngineUnavailableError, match=reason):
        layer(torch.randn(3, 2, 5, device="cuda", dtype=dtype))
