"""A cell is one step of its layer."""

import itertools
import math

import pytest
import torch
from torch import nn

import rda
from rda.activations import ATTENTION, HIDDEN, OUTPUT

PAIRS = [(rda.RDA, rda.RDACell), (rda.RWA, rda.RWACell)]


def cell_of(layer, cell_class, **options):
    cell = cell_class(layer.input_size, layer.hidden_size, **options)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    return cell


@pytest.mark.parametrize(("layer_class", "cell_class"), PAIRS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_loop_over_the_cell_is_the_layer(layer_class, cell_class, bias):
    torch.manual_seed(0)
    layer = layer_class(3, 4, bias=bias)
    cell = cell_of(layer, cell_class, bias=bias)
    x = torch.randn(6, 2, 3)
    average, weight = torch.zeros(2, 4), torch.zeros(2, 4)
    outputs = []
    for x_t in x:
        average, weight = cell(x_t, (average, weight))
        outputs.append(cell.readout((average, weight)))
    expected, final = layer(x)
    # log(1 + d) is rounded at every step of the loop, once for the whole layer.
    torch.testing.assert_close(torch.stack(outputs), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(average, final.average[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(weight, final.weight[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("names", list(itertools.product(ATTENTION, HIDDEN, OUTPUT)))
def test_a_cell_takes_every_choice(names):
    torch.manual_seed(0)
    options = dict(zip(("attention", "hidden", "output"), names, strict=True))
    layer = rda.RDA(3, 4, dtype=torch.float64, **options)
    cell = cell_of(layer, rda.RDACell, dtype=torch.float64, **options)
    x = torch.randn(1, 2, 3, dtype=torch.float64)
    expected, final = layer(x)
    state = cell(x[0])
    torch.testing.assert_close(cell.readout(state), expected[0], rtol=0, atol=1e-15)
    torch.testing.assert_close(state.weight, final.weight[0], rtol=0, atol=1e-15)


CALLS = {
    "batched": lambda: (torch.randn(2, 3),),
    "unbatched": lambda: (torch.randn(3),),
    "empty batch": lambda: (torch.randn(0, 3),),
    "with a state": lambda: (torch.randn(2, 3), (torch.rand(2, 4), torch.rand(2, 4))),
    "unbatched with a state": lambda: (torch.randn(3), (torch.rand(4), torch.rand(4))),
    "rank 0": lambda: (torch.tensor(1.0),),
    "rank 3": lambda: (torch.randn(1, 2, 3),),
    "feature size": lambda: (torch.randn(2, 5),),
    "state batch": lambda: (torch.randn(2, 3), (torch.rand(3, 4), torch.rand(3, 4))),
    "state size": lambda: (torch.randn(2, 3), (torch.rand(2, 5), torch.rand(2, 5))),
    "state rank": lambda: (torch.randn(2, 3), (torch.rand(4), torch.rand(4))),
    "state dtype": lambda: (torch.randn(2, 3), (torch.rand(2, 4).double(),) * 2),
}


@pytest.mark.parametrize("title", CALLS)
@pytest.mark.parametrize("cell_class", [rda.RDACell, rda.RWACell])
def test_a_cell_is_called_as_nn_lstmcell_is(title, cell_class):
    told = []
    for cell in (nn.LSTMCell(3, 4), cell_class(3, 4)):
        try:
            told.append([tuple(part.shape) for part in cell(*CALLS[title]())])
        except (ValueError, RuntimeError) as error:
            told.append(type(error))
    assert told[0] == told[1]


def test_wrong_dtype_and_wrong_construction():
    with pytest.raises(ValueError, match="float64"):
        rda.RDACell(3, 4)(torch.randn(2, 3).double())
    with pytest.raises(ValueError, match="hidden_size"):
        rda.RDACell(3, 0)
    with pytest.raises(TypeError, match="input_size"):
        rda.RWACell(2.5, 4)
    with pytest.raises(ValueError, match="Did you mean 'sigmoid'"):
        rda.RDACell(3, 4, attention="sigmoyd")
    with pytest.raises(TypeError, match="Tensor"):
        rda.RDACell(3, 4)(None)


def test_autocast_and_bfloat16():
    cell, x = rda.RDACell(3, 4), torch.randn(2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        state = cell(x)
        assert cell.readout(state).dtype == torch.bfloat16
    assert [part.dtype for part in state] == [torch.bfloat16, torch.float32]
    half = rda.RDACell(3, 4, dtype=torch.bfloat16)
    state = half(x.to(torch.bfloat16))
    assert half.readout(state).dtype == torch.bfloat16


def test_repr_and_no_bias():
    assert repr(rda.RDACell(3, 4, bias=False, attention="relu")) == (
        "RDACell(3, 4, bias=False, attention=relu)"
    )
    assert repr(rda.RWACell(3, 4)) == "RWACell(3, 4)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_that_adds_nothing_and_forgets_nothing_keeps_weights_of_any_size(dtype):
    cell = rda.RDACell(1, 200, dtype=dtype, attention="relu")
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
        _, _, a, gamma = cell.bias.chunk(4)
        a.fill_(-1.0)  # ReLU: no attention
        gamma.fill_(1000.0)
        smallest = torch.finfo(dtype).tiny
        weights = torch.logspace(math.log10(smallest * 4), 4, 200, dtype=torch.float64).to(dtype)
        average = torch.linspace(-1, 1, 200, dtype=dtype)
        for _ in "long", "quick":
            found = cell(torch.zeros(1, dtype=dtype), (average, weights))
            assert torch.equal(found.average, average)
            # An error of the logarithm is relative to the weight: a few roundings of a number of
            # the logarithm's size.
            sizes = weights.log().abs().clamp(min=1.0)
            errors = (found.weight / weights - 1).abs() / sizes
            assert errors.max() < 4 * torch.finfo(dtype).eps
