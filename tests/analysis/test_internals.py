"""Looking inside a layer gives what the layer computed."""

import pytest
import torch
from torch import nn

import rda
from rda.analysis.internals import look_inside


@pytest.mark.parametrize("label", ["RDA-exp-tanh", "RDA-sigmoid-id", "RDA-softplus-id", "RWA"])
@pytest.mark.parametrize("learned", [False, True])
def test_it_ends_with_the_output_and_the_state_of_the_layer(label, learned):
    torch.manual_seed(0)
    layer = rda.build(label, 3, 7, learn_initial_state=learned, dtype=torch.float64)
    if learned:
        nn.init.normal_(layer.initial_average)
    input = torch.randn(9, 2, 3, dtype=torch.float64)
    output, (average, _) = layer(input)
    inside = look_inside(layer, input)
    torch.testing.assert_close(inside.output, output)
    torch.testing.assert_close(inside.average[-1], average[0])
    assert (inside.log_discount <= 0).all()
    assert inside.log_discount.any() == (label != "RWA")


def test_shares_are_the_weights_of_the_average():
    layer = rda.RDA(3, 7)
    inside = look_inside(layer, torch.randn(9, 2, 3))
    for step in (0, 4, 8):
        shares = inside.shares(step)
        torch.testing.assert_close(shares.sum(0), torch.ones(2, 7, dtype=torch.float64))
        blended = (shares * inside.features[: step + 1]).sum(0)
        torch.testing.assert_close(blended, inside.average[step])
        torch.testing.assert_close(shares[-1], inside.new_share[step])


def test_batch_first_and_two_directions():
    layer = rda.RDA(3, 5, batch_first=True)
    assert look_inside(layer, torch.randn(2, 9, 3)).features.shape == (9, 2, 5)
    with pytest.raises(ValueError, match="one direction"):
        look_inside(rda.RDA(3, 5, bidirectional=True), torch.randn(9, 2, 3))
