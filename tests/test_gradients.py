"""First and second derivatives of the whole scan, against finite differences."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import rda
from rda.activations import Choices
from rda.equations import LogState
from rda.functional import scan

LENGTHS = torch.tensor([3, 1, 2])


def scan_arguments(choices, randn):
    time, batch, hidden = 3, 3, 2
    projected = randn(time, batch, choices.input_blocks * hidden)
    weight = randn(choices.recurrent_blocks * hidden, hidden) / 2
    if choices.attention == "relu":
        # Finite differences need logits away from the kink: push each block to one side.
        attention = projected[..., 2 * hidden : 3 * hidden]
        attention += 3.0 * attention.sign()
        weight /= 4
    r, l = randn(batch, hidden), randn(batch, hidden)
    return tuple(part.requires_grad_() for part in (projected, weight, r, l))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_with_ragged_lengths_and_a_given_state(choices, randn, reverse):
    def run(projected, weight, r, l):
        output, final = scan(
            projected, weight, LogState(r, l), choices, lengths=LENGTHS, reverse=reverse,
            engine="reference",
        )  # fmt: skip
        return output, *final

    arguments = scan_arguments(choices, randn)
    assert torch.autograd.gradcheck(run, arguments)
    # The equations are the same in both directions: their second derivatives are compared element
    # by element in one, and along a random direction (fast_mode) in the other.
    assert torch.autograd.gradgradcheck(run, arguments, fast_mode=reverse)


def test_layer_with_packed_input_and_a_given_state(choices, randn):
    layer: rda.RDA | rda.RWA
    if choices.discount:
        layer = rda.RDA(
            2, 2, dtype=torch.float64, engine="reference",
            attention=choices.attention, hidden=choices.hidden, output=choices.output,
        )  # fmt: skip
    else:
        layer = rda.RWA(2, 2, dtype=torch.float64, engine="reference")
    names = [name for name, _ in layer.named_parameters()]
    attention_bias = slice(4, 6)
    with torch.no_grad():
        layer.bias_l0[attention_bias] = torch.tensor([4.0, -4.0]) if is_relu(choices) else 0.5

    def run(data, average, weight, *parameters):
        packed = pack_padded_sequence(data, LENGTHS, enforce_sorted=False)
        output, final = torch.func.functional_call(
            layer, dict(zip(names, parameters, strict=True)), (packed, (average, weight))
        )
        assert isinstance(output, PackedSequence)
        return output.data, *final

    state = randn(1, 3, 2), randn(1, 3, 2).exp()
    parameters = [part.detach().clone() for part in layer.parameters()]
    tensors = [randn(3, 3, 2), *state, *parameters]
    arguments = tuple(part.requires_grad_() for part in tensors)
    assert torch.autograd.gradcheck(run, arguments)
    assert torch.autograd.gradgradcheck(run, arguments, fast_mode=True)  # the scan's are above


def is_relu(choices):
    return choices.attention == "relu"


def test_callables_in_place_of_names(randn):
    by_name = Choices("softplus", "tanh", "tanh")
    by_callable = Choices(torch.nn.functional.softplus, torch.tanh, lambda h: torch.tanh(h))
    projected, weight, r, l = scan_arguments(by_name, randn)
    results = []
    for choices in (by_name, by_callable):
        output, final = scan(projected, weight, LogState(r, l), choices)
        loss = output.square().sum() + final.r.sum() + final.l.sum()
        results.append((output, *final, *torch.autograd.grad(loss, (projected, weight, r, l))))
    for named, called in zip(*results, strict=True):
        torch.testing.assert_close(named, called, rtol=1e-12, atol=1e-12)


def test_a_learned_initial_state_gets_a_gradient():
    for unit in ("RDA-exp-tanh", "RDA-sigmoid-id", "RWA", "LSTM", "GRU"):
        torch.manual_seed(0)
        layer = rda.build(unit, 2, 3, num_layers=2, learn_initial_state=True)
        output, _ = layer(torch.randn(4, 2, 2))
        output.square().sum().backward()
        learned = [part for name, part in layer.named_parameters() if name.startswith("initial")]
        assert learned
        for part in learned:
            assert part.grad.abs().min() > 0, unit


UNITS = {
    "layer": lambda: rda.RDA(2, 3),
    "cell": lambda: rda.RDACell(2, 3),
    "RWA": lambda: rda.RWA(2, 3),
}


def loss_of(unit):
    def loss(x):
        found = unit(x)
        output = found.average if isinstance(found, rda.State) else found[0]
        return output.square().sum()

    return loss


@pytest.fixture(params=UNITS)
def loss_and_input(request):
    torch.manual_seed(0)
    unit = UNITS[request.param]().double()
    x = torch.randn(*((4, 2) if request.param == "cell" else (4, 1, 2)), dtype=torch.float64)
    return loss_of(unit), x


def hessian_by_two_backward_passes(loss, x):
    return torch.autograd.functional.hessian(loss, x)


def test_hessians_of_torch_func_are_those_of_autograd(loss_and_input):
    loss, x = loss_and_input
    expected = hessian_by_two_backward_passes(loss, x)
    torch.testing.assert_close(torch.func.hessian(loss)(x), expected)
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(loss))(x), expected)
    direction = torch.randn_like(x)
    _, pushed = torch.func.jvp(torch.func.grad(loss), (x,), (direction,))
    torch.testing.assert_close(pushed, torch.tensordot(expected, direction, x.dim()))


def test_several_gradients_in_one_backward_pass(loss_and_input):
    """torch.autograd.grad(is_grads_batched=True), and what torch builds on it."""
    loss, x = loss_and_input

    def squares(x):
        return torch.stack([loss(x), loss(2 * x)])

    one_by_one = torch.autograd.functional.jacobian(squares, x)
    at_once = torch.autograd.functional.jacobian(squares, x, vectorize=True)
    torch.testing.assert_close(at_once, one_by_one)
    expected = hessian_by_two_backward_passes(loss, x)
    found = torch.autograd.functional.hessian(loss, x, vectorize=True)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("engine", ["cpu", "eager"])
def test_batched_gradients_reach_every_parameter(engine, randn):
    layer = rda.RDA(2, 3, num_layers=2, bidirectional=True, dtype=torch.float64, engine=engine)
    packed = pack_padded_sequence(randn(3, 3, 2), LENGTHS, enforce_sorted=False)
    output, final = layer(packed, (randn(4, 3, 3), randn(4, 3, 3).exp()))
    outputs = (output.data, *final)
    several = [randn(5, *part.shape) for part in outputs]
    at_once = torch.autograd.grad(
        outputs, [*layer.parameters()], several, is_grads_batched=True, retain_graph=True
    )
    for k in range(5):
        one = torch.autograd.grad(
            outputs, [*layer.parameters()], [part[k] for part in several], retain_graph=True
        )
        for found, expected in zip(at_once, one, strict=True):
            torch.testing.assert_close(found[k], expected)
