"""The engine `block`, for small layers, equals the reference; it supports only float32 and tf32."""

import itertools

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
    error,
    on_another_stream,
    packed_error,
    plain_and_compiled,
    replayed_and_run,
    split_and_whole,
    stays_finite,
)

import rda
from rda.cli import main
from rda.scan.dispatch import EngineUnavailableError, scan

# In tf32 only torch's matmuls before and after the recurrence use tf32, and have its error.
without_bf16 = pytest.mark.parametrize("product", ["fp32", "tf32"], indirect=True)


def layer_of(units):
    torch.manual_seed(0)
    return rda.RDA(5, units, engine="block").cuda()


@without_bf16
def test_every_choice(choices, product):
    assert error("block", 23, 11, 37, choices, product) < TOLERANCE[product]


@without_bf16
@pytest.mark.parametrize("units", [1, 2, 3, 15, 16, 17, 31, 48, 63, 64, 65, 96, 97, 112, 127, 128])
@pytest.mark.parametrize("choices", [RDA, RWA], ids=["RDA", "RWA"])
def test_every_size(units, choices, product):
    assert error("block", 12, 9, units, choices, product) < TOLERANCE[product]


# A block computes one row, or two rows if there are more rows than multiprocessors.
@without_bf16
@pytest.mark.parametrize("batch", [1, 2, 7, 132, 133, 257, 700])
@pytest.mark.parametrize("units", [64, 100])
def test_every_number_of_rows(batch, units, product):
    assert error("block", 7, batch, units, RDA, product) < TOLERANCE[product]


@without_bf16
@pytest.mark.parametrize("time", [1, 2, 3, 4, 5, 6, 7, 8, 9, 73, 2000])
@pytest.mark.parametrize("choices", [RDA, RWA], ids=["RDA", "RWA"])
def test_short_and_long_sequences(time, choices, product):
    assert error("block", time, 5, 40, choices, product) < TOLERANCE[product]


@without_bf16
@pytest.mark.parametrize("repeated", [1, 30])
@pytest.mark.parametrize("reverse", [False, True])
def test_ragged_rows_in_both_directions(choices, reverse, repeated, product):
    lengths = [20, 3, 0, 11, 20, 1, 19, 7, 20] * repeated
    found = error("block", 20, len(lengths), 37, choices, product, lengths, reverse)
    assert found < TOLERANCE[product]


@without_bf16
def test_a_split_sequence_is_the_whole(product):
    split, whole = split_and_whole("block", 9, 66, product)
    assert torch.equal(split[0], whole[0])
    # The state between the scans is rounded to float32; inside, the kernel keeps more digits.
    found, expected = ([part.double() for part in parts[1:]] for parts in (split, whole))
    assert distance(found, expected) < TOLERANCE[product]


@without_bf16
def test_logits_of_any_size_stay_finite(choices, product):
    assert stays_finite("block", 37, choices, product)


@without_bf16
@pytest.mark.parametrize("batch", [20, 200])
def test_a_thousand_launches_are_identical(batch, product):
    assert a_thousand_agree("block", batch, 100, product)


@without_bf16
@pytest.mark.parametrize(
    ("name", "units"),
    [*itertools.product(PAIRS, [1, 17, 64, 90, 96]), ("GRU", 100), ("GRU", 112)],
)
@pytest.mark.parametrize("batch", [1, 9, 200])
def test_torchs_own_units(name, units, batch, product):
    layer = PAIRS[name][0](6, units).cuda()
    assert layer.engine_for(torch.zeros(13, batch, 6, device="cuda")) == "block"
    assert baseline_error(name, product, 13, batch, units) < TOLERANCE[product]


@pytest.mark.parametrize("product", ["fp32"], indirect=True)
def test_one_row_of_a_transposed_input(product):
    """The stride of a dimension of size one may be any number."""
    x = torch.randn(1, 7, 4 * 40, device="cuda").transpose(0, 1)
    weight = (torch.randn(3 * 40, 40, device="cuda") / 40**0.5).requires_grad_()
    exact, _ = scan(x.double(), weight.double(), engine="reference")
    expected = torch.autograd.grad(exact.sum(), weight)[0].double()
    for engine in ("block", "cuda", "graph"):
        output, _ = scan(x, weight, engine=engine)
        found = torch.autograd.grad(output.sum(), weight)[0].double()
        assert distance([found], [expected]) < TOLERANCE[product]


@pytest.mark.parametrize(("dtype", "units"), [("float32", 64), ("bfloat16", 20)])
def test_the_doctor_finds_it_right(capsys, dtype, units):
    assert main(["doctor", "--device", "cuda", "--dtype", dtype, "--units", str(units)]) == 0
    told = capsys.readouterr().out
    assert "\nblock       right" in told
    assert ": engine block" in told


def test_layers_directions_and_packing():
    assert packed_error("block", 40, torch.float32) < TOLERANCE["tf32"]


def test_torch_compile_takes_it_whole():
    x = torch.randn(17, 6, 5, device="cuda", requires_grad=True)
    for plain, traced in plain_and_compiled(layer_of(40), x):
        torch.testing.assert_close(plain, traced, rtol=1e-4, atol=1e-5)


def test_a_cuda_graph_replays_it():
    x = torch.randn(17, 6, 5, device="cuda")
    assert all(map(torch.equal, *replayed_and_run(layer_of(40), x)))


def test_another_stream_is_kept_in_order():
    layer, x = layer_of(100), torch.randn(300, 6, 5, device="cuda")
    expected, _ = layer(x)
    found, total = on_another_stream(layer, x)
    assert torch.equal(found, expected)
    assert torch.equal(total, expected.sum())


def test_the_op_is_registered_as_torch_demands():
    check_op("block", 16, torch.float32)


def test_half_precision_is_computed_in_float32():
    layer = layer_of(40)
    x = torch.randn(17, 6, 5, device="cuda")
    low, _ = layer.half()(x.half())
    assert low.dtype == torch.float16
    exact, _ = layer.double().to(torch.float32)(x.half().float())
    assert distance([low.double()], [exact.double()]) < TOLERANCE["tf32"]


@pytest.mark.parametrize(
    ("units", "dtype", "reason"),
    [(64, torch.bfloat16, "float32, and this is bf16"), (129, torch.float32, "holds 128 units")],
)
def test_what_it_cannot_do_is_refused_by_name(units, dtype, reason):
    layer = rda.RDA(5, units, engine="block").to("cuda", dtype)
    with pytest.raises(EngineUnavailableError, match=reason):
        layer(torch.randn(3, 2, 5, device="cuda", dtype=dtype))


def test_an_empty_batch():
    output, state = layer_of(40)(torch.randn(7, 0, 5, device="cuda"))
    assert output.shape == (7, 0, 40)
    assert state.average.shape == (1, 0, 40)
