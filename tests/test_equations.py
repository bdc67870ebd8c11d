"""The equations say what the paper says, in both forms."""

import math

import pytest
import torch

from rda.activations import (
    ATTENTION,
    LOG_ATTENTION,
    Choices,
    log_from_weight,
    log_of_weight,
)
from rda.equations import (
    Gates,
    LogState,
    PlainState,
    discounted_average,
    features,
    gates,
    output,
    plain_hidden,
    plain_step,
    stable_average,
    stable_hidden,
    stable_step,
    weight_from_log,
    weighted_average,
)
from rda.training.building import build_model
from rda.training.settings import full_settings

RWA = Choices("exp", "tanh", "identity", discount=False)


def random_gates(randn, choices, time=12, shape=(3, 4)):
    """Logits of a few units. ReLU must attend to something at the first step, or n/d is 0/0."""
    steps = [Gates(*(randn(*shape) for _ in range(4))) for _ in range(time)]
    steps[0] = steps[0]._replace(a=steps[0].a.abs() + 0.1)
    return steps if choices.discount else [step._replace(gamma=None) for step in steps]


def no_history(shape=(3, 4)):
    zeros = torch.zeros(shape, dtype=torch.float64)
    return PlainState(zeros, zeros), LogState(zeros, torch.full_like(zeros, -torch.inf))


def test_plain_and_stable_forms_are_one_function(choices, randn):
    plain, stable = no_history()
    for gate in random_gates(randn, choices):
        plain = plain_step(plain, gate, choices)
        stable = stable_step(stable, gate, choices)
        # A dozen float64 steps: a few hundred roundings of 1e-16 stay far below 1e-12.
        torch.testing.assert_close(stable.r, plain.n / plain.d, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(stable.l.exp(), plain.d, rtol=1e-12, atol=1e-12)
        h = plain_hidden(plain, choices), stable_hidden(stable, choices)
        torch.testing.assert_close(*h, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            output(h[0], choices), output(h[1], choices), rtol=1e-12, atol=1e-12
        )


def test_a_discount_of_one_makes_rda_the_rwa(randn):
    undiscounted = Choices("exp", "tanh", "identity")
    _, rwa = no_history()
    _, rda = no_history()
    for gate in random_gates(randn, RWA):
        rwa = stable_step(rwa, gate, RWA)
        # sigma(1e4) is 1 exactly.
        rda = stable_step(rda, gate._replace(gamma=torch.full_like(gate.u, 1e4)), undiscounted)
        assert torch.equal(rwa.r, rda.r)
        assert torch.equal(rwa.l, rda.l)
        assert torch.equal(stable_hidden(rwa, RWA), stable_hidden(rda, undiscounted))


def test_the_average_of_a_constant_is_that_constant(choices, randn):
    _, state = no_history()
    z = randn(3, 4)
    for gate in random_gates(randn, choices):
        log_gamma = 0.0 if gate.gamma is None else torch.nn.functional.logsigmoid(gate.gamma)
        state = stable_average(state, z, choices.log_f_a(gate.a), log_gamma)
        assert torch.equal(state.r, z)


def test_the_average_stays_within_the_features_it_averages(choices, randn):
    _, state = no_history()
    seen = []
    for gate in random_gates(randn, choices, time=40):
        seen.append(features(gate.u, gate.g))
        state = stable_step(state, gate, choices)
        lowest, highest = torch.stack(seen).amin(0), torch.stack(seen).amax(0)
        # One rounding of the blend may step over the edge.
        assert bool((state.r >= lowest - 1e-15).all())
        assert bool((state.r <= highest + 1e-15).all())


def test_three_steps_worked_out_by_hand():
    """z = 2, -1, 4; a = 1, 2, 1; gamma = -, 1/2, 1/4.

    n: 2,  2/2 - 2 = -1,   -1/4 + 4 = 3.75
    d: 1,  1/2 + 2 = 2.5,  2.5/4 + 1 = 1.625
    """
    z = torch.tensor([2.0, -1.0, 4.0], dtype=torch.float64)
    a = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
    gamma = torch.tensor([0.9, 0.5, 0.25], dtype=torch.float64)
    plain, stable = no_history(())
    for t in range(3):
        plain = discounted_average(plain, z[t], a[t], gamma[t])
        stable = stable_average(stable, z[t], a[t].log(), gamma[t].log())
    assert plain == (3.75, 1.625)
    assert stable.r.item() == pytest.approx(3.75 / 1.625, abs=1e-15)
    assert stable.l.item() == pytest.approx(math.log(1.625), abs=1e-15)

    plain, _ = no_history(())
    for t in range(3):
        plain = weighted_average(plain, z[t], a[t])
    assert plain == (4.0, 4.0)


def test_one_whole_step_worked_out_by_hand():
    """u = 2, g = atanh(0.5), a~ = 0, gamma~ = 0, from n = 3, d = 1: z = 1, a = 1, gamma = 1/2."""
    gate = Gates(*(torch.tensor(v, dtype=torch.float64) for v in (2.0, math.atanh(0.5), 0.0, 0.0)))
    started = LogState(*(torch.tensor(v, dtype=torch.float64) for v in (3.0, 0.0)))
    state = stable_step(started, gate, Choices())
    assert state.r.item() == pytest.approx((1.5 + 1.0) / (0.5 + 1.0), abs=1e-15)
    assert state.l.item() == pytest.approx(math.log(1.5), abs=1e-15)
    assert output(stable_hidden(state, Choices()), Choices()).item() == pytest.approx(
        math.tanh(5 / 3), abs=1e-15
    )


@pytest.mark.parametrize("name", ATTENTION)
def test_log_attention_is_the_log_of_attention(name):
    x = torch.linspace(-30, 30, 4001, dtype=torch.float64)
    plain = ATTENTION[name](x)
    held = plain > 0
    expected = plain[held].log()
    torch.testing.assert_close(LOG_ATTENTION[name](x)[held], expected, rtol=1e-14, atol=1e-14)
    assert bool((LOG_ATTENTION[name](x)[~held] == -torch.inf).all())


def test_an_attention_of_zero_holds_the_average():
    r = torch.tensor([1.5, 1.5], dtype=torch.float64)
    nothing = torch.full((2,), -torch.inf, dtype=torch.float64)
    l = torch.tensor([0.7, -torch.inf], dtype=torch.float64)
    held = stable_average(LogState(r, l), r + 1, nothing, torch.full_like(r, -0.5))
    assert torch.equal(held.r, r)
    assert torch.equal(held.l, l - 0.5)


@pytest.mark.parametrize("task", ["addition", "multicopy"])
def test_relu_as_printed_divides_nothing_by_nothing_at_the_first_step(task):
    """Half of h is NaN after one step and all of it after two; with 0 / 0 defined none is, and
    softplus as printed has none either."""
    for unit, spoilt in (("RDA-relu-tanh", (0.4, 0.6)), ("RDA-softplus-tanh", (0.0, 0.0))):
        settings = full_settings(task, unit)
        source = settings.task.open(torch.device("cpu"))
        torch.manual_seed(0)
        layer = build_model(settings, source.input_size, source.output_size)
        batch = source.batch(torch.Generator().manual_seed(0), 100)
        inputs = layer.encode(batch.input[:2])
        choices, (w_ih, w_hh, bias) = layer.unit.choices, layer.unit.all_weights[0]
        projected = torch.nn.functional.linear(inputs, w_ih, bias)
        state, h = PlainState(*torch.zeros(2, 100, 250)), torch.zeros(100, 250)
        lost = []
        for at_step in projected:
            state = plain_step(state, gates(at_step, h @ w_hh.T, choices), choices)
            h = plain_hidden(state, choices)
            lost.append(h.isnan().float().mean().item())
        assert spoilt[0] <= lost[0] <= spoilt[1]
        assert lost[1] == bool(spoilt[1])
        assert not layer.unit(inputs)[0].isnan().any()


def test_a_negative_attention_is_not_hidden():
    assert log_of_weight(torch.tensor(-1.0)).isnan()


def test_weight_and_its_log_convert_back_and_forth():
    l = torch.linspace(-700, 700, 2801, dtype=torch.float64)
    # Near weight 1e4 a float64 ulp is 2e-12; here weights reach 700.
    torch.testing.assert_close(log_from_weight(weight_from_log(l)), l, rtol=1e-13, atol=1e-13)
    single = torch.linspace(-80, 80, 2801)
    back = log_from_weight(weight_from_log(single))
    # One rounding of the weight is eps / (1 - e^-w) in the log, and the log itself has its own.
    torch.testing.assert_close(back, single, rtol=3e-7, atol=3e-7)


def test_no_weight_is_no_history_and_passes_no_gradient():
    weight = torch.tensor([0.0, -0.0, -3.0], requires_grad=True)
    l = log_from_weight(weight)
    assert bool((l == -torch.inf).all())
    assert torch.equal(weight_from_log(l), torch.zeros(3))
    l.exp().sum().backward()
    assert torch.equal(weight.grad, torch.zeros(3))


@pytest.mark.parametrize("p", [0.0, 1e-9, -1e-9, 3.0, -3.0])
def test_every_derivative_of_the_blend_is_right_where_the_branches_meet(p):
    inputs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, 0.2, 1.1)]
    log_a = torch.tensor(0.2 + p, dtype=torch.float64, requires_grad=True)

    def blend(r, l, z, log_a):
        return stable_average(LogState(r, l), z, log_a, 0.0)

    assert torch.autograd.gradcheck(blend, (*inputs, log_a))
    assert torch.autograd.gradgradcheck(blend, (*inputs, log_a))
