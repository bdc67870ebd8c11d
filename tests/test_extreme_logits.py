"""No logit, however large, makes anything non-finite; and the test is able to fail."""

import pytest
import torch

import rda
from rda.activations import Choices
from rda.equations import Gates, PlainState, plain_hidden, plain_step
from rda.functional import scan

HUGE = 1e4
TIME, BATCH, HIDDEN = 12, 4, 3


def huge_logits(choices, dtype):
    """Attention and discount logits of +-1e4 at random, in runs and alternating."""
    generator = torch.Generator().manual_seed(3)
    projected = torch.randn(TIME, BATCH, choices.input_blocks * HIDDEN, generator=generator)
    blocks = projected[..., 2 * HIDDEN :]
    signs = torch.randint(0, 2, blocks.shape, generator=generator) * 2.0 - 1.0
    signs[:, 0] = 1.0
    signs[:, 1] = -1.0
    blocks.copy_(signs * HUGE)
    weight = torch.randn(choices.recurrent_blocks * HIDDEN, HIDDEN, generator=generator)
    return projected.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_()


def assert_finite(**tensors):
    for name, tensor in tensors.items():
        assert tensor.isfinite().all(), f"{name} has non-finite values: {tensor}"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_scan_and_both_its_derivatives_stay_finite(choices, dtype):
    projected, weight = huge_logits(choices, dtype)
    output, final = scan(projected, weight, None, choices, engine="reference")
    loss = (
        output.float().square().sum()
        + final.r.sum()
        + rda.functional.weight_from_log(final.l).sum()
    )
    first = torch.autograd.grad(loss, (projected, weight), create_graph=True)
    second = torch.autograd.grad(sum(g.float().square().sum() for g in first), (projected, weight))
    if choices.attention != "relu":
        assert_finite(log_weight=final.l)
    assert_finite(output=output, average=final.r, d_projected=first[0], d_weight=first[1])
    assert_finite(dd_projected=second[0], dd_weight=second[1])


@pytest.mark.parametrize("attention_sign", [1, -1])
@pytest.mark.parametrize("discount_sign", [1, -1])
@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16", "autocast"])
def test_layers_stay_finite_with_biases_of_ten_thousand(
    choices, attention_sign, discount_sign, precision
):
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    torch.manual_seed(0)
    options = {} if not choices.discount else {
        "attention": choices.attention, "hidden": choices.hidden, "output": choices.output,
    }  # fmt: skip
    unit = rda.RDA if choices.discount else rda.RWA
    layer = unit(2, HIDDEN, num_layers=2, bidirectional=True, dtype=dtype, **options)
    with torch.no_grad():
        for name, bias in layer.named_parameters():
            if name.startswith("bias"):
                bias[2 * HIDDEN : 3 * HIDDEN] = attention_sign * HUGE
                bias[3 * HIDDEN :] = discount_sign * HUGE
    x = torch.randn(6, 2, 2, dtype=dtype, requires_grad=True)
    state = (torch.randn(4, 2, HIDDEN, dtype=dtype), torch.rand(4, 2, HIDDEN, dtype=dtype))
    for given in (None, state):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
            output, final = layer(x, given)
        loss = sum(part.float().square().sum() for part in (output, *final))
        inputs = (x, *layer.parameters())
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        second = torch.autograd.grad(sum(g.float().square().sum() for g in first), inputs)
        assert_finite(output=output, average=final.average, weight=final.weight)
        assert_finite(**{f"first_{k}": g for k, g in enumerate(first)})
        assert_finite(**{f"second_{k}": g for k, g in enumerate(second)})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_plain_form_does_fail_here(dtype):
    """What the tests above guard against really happens to n and d as printed."""
    projected, _ = huge_logits(Choices(), dtype)
    zeros = torch.zeros(BATCH, HIDDEN, dtype=dtype)
    state = PlainState(zeros, zeros)
    for step in projected.unbind(0):
        state = plain_step(state, Gates(*step.chunk(4, dim=-1)), Choices())
    h = plain_hidden(state, Choices())
    (gradient,) = torch.autograd.grad(h.float().sum(), projected)
    assert not h.isfinite().all()
    assert not gradient.isfinite().all()


@pytest.mark.parametrize("unit", ["RDA-exp-tanh", "RDA-sigmoid-id", "RWA"])
def test_a_hundred_thousand_steps_stay_finite(unit):
    torch.manual_seed(0)
    layer = rda.build(unit, 1, 2)
    with torch.no_grad():
        layer.bias_l0[4:6] += 5.0
        output, state = layer(torch.randn(100_000, 1, 1))
    assert_finite(output=output, average=state.average, weight=state.weight)
    assert output.abs().max() > 0


def test_relu_attention_that_is_all_zero_holds_the_previous_average():
    torch.manual_seed(0)
    layer = rda.RDA(2, 3, attention="relu", output="identity")
    with torch.no_grad():
        layer.bias_l0[6:9] = -1e4
    average = torch.randn(1, 2, 3)
    for weight in (torch.zeros(1, 2, 3), torch.rand(1, 2, 3) + 0.5):
        output, final = layer(torch.randn(5, 2, 2), (average, weight))
        assert torch.equal(final.average, average)
        assert torch.equal(output, average.expand(5, 2, 3))
    output, final = layer(torch.randn(5, 2, 2))
    assert torch.equal(output, torch.zeros(5, 2, 3))
    assert torch.equal(final.weight, torch.zeros(1, 2, 3))


def test_half_precision_keeps_averaging_where_bfloat16_would_stall():
    """After 256 equal weights a bfloat16 running mean could no longer move."""
    layer = rda.RWA(1, 1, bias=False, dtype=torch.bfloat16)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.tensor([[1.0], [100.0], [0.0]]))
        layer.weight_hh_l0.zero_()
    x = torch.cat([torch.full((1000,), 0.5), torch.full((1000,), 0.25)])
    _, state = layer(x.to(torch.bfloat16).view(-1, 1, 1))
    # u = x and tanh(100 x) = 1, so the average is 0.375, which bfloat16 holds exactly.
    assert state.average.item() == 0.375
    assert state.weight.item() == pytest.approx(torch.tensor(2001.0).log().item(), rel=1e-6)


@pytest.mark.parametrize("logit", [-30.0, -60.0, -80.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_light_history_is_carried_exactly_and_differentiably(logit, dtype):
    """Weights down to e^-80 cross a split; second derivatives through them need float64."""
    torch.manual_seed(0)
    layer, x = rda.RDA(2, 3, dtype=dtype), torch.randn(6, 2, 2, dtype=dtype, requires_grad=True)
    with torch.no_grad():
        layer.bias_l0[6:9] = logit
    first, state = layer(x[:3])
    second, _ = layer(x[3:], state)
    whole, _ = layer(x)
    # Near l = -80 one float32 ulp of l is 8e-6, and that is a share's relative error.
    tolerance = 1e-4 if dtype == torch.float32 else 1e-11
    split = torch.cat([first, second])
    torch.testing.assert_close(split, whole, rtol=tolerance, atol=tolerance)
    (gradient,) = torch.autograd.grad(split.square().sum(), x, create_graph=True)
    assert_finite(gradient=gradient)
    if dtype == torch.float64:
        assert_finite(second=torch.autograd.grad(gradient.square().sum(), x)[0])


@pytest.mark.parametrize("engine", ["cpu", "eager", "reference"])
@pytest.mark.parametrize(
    ("dtype", "steps_behind", "grows"),
    [
        (torch.float32, 1e6, True),
        (torch.float32, 1e7, False),
        (torch.float64, 1e7, True),
        (torch.float64, 1e14, True),
    ],
)
def test_a_float32_average_over_millions_of_steps_stops_gaining_weight(
    engine, dtype, steps_behind, grows
):
    """The limit that docs/conventions.md states: new steps still count, with a share that is stuck.

    One more step with attention 1 and features of 1, after an average of 0 with that much weight.
    """
    undiscounted = Choices("exp", "identity", "identity", discount=False)
    step = torch.tensor([1.0, 50.0, 0.0], dtype=dtype).view(1, 1, 3)  # u, g with tanh g = 1, a
    start = torch.full((1, 1), steps_behind, dtype=dtype).log()
    state = rda.functional.LogState(torch.zeros(1, 1, dtype=dtype), start)
    weight = torch.zeros(2, 1, dtype=dtype)
    _, final = scan(step, weight, state, undiscounted, engine=engine)
    assert (final.l > start).item() is grows
    # log d is rounded to half an ulp of 16 (or 32), and that is the relative error of the share.
    bound = 32 * torch.finfo(dtype).eps
    assert final.r.item() == pytest.approx(1 / (steps_behind + 1), rel=bound)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("sign", [1, -1])
def test_the_slope_of_a_saturated_tanh_has_every_digit_that_float32_leaves_it(sign):
    """1 - tanh^2 has the error of tanh twice, and beside it only that of the square.

    Just below 1 a number is rounded by 2^-25: at a logit of 6 that is 0.1% of the slope, 2.5e-5.
    """
    layer = rda.Recurrent(rda.units.RNN(), 1, 1, bias=False, engine="cpu")
    with torch.no_grad():
        layer.weight_ih_l0.fill_(sign)
    x = torch.linspace(2.0, 12.0, 4001).view(1, -1, 1).requires_grad_()
    output, _ = layer(x)
    output.sum().backward()
    exact = torch.tanh(sign * x.detach().double())
    rounding = 1.25 * 2**-25  # a quarter more: the tail that is taken from 1 is itself rounded
    assert (output.double() - exact).abs().max() <= rounding
    assert (sign * x.grad - (1 - exact * exact)).abs().max() <= 3 * rounding
