"""Lemma 1: what an RWA must pay to alternate, exactly and as bounded by the paper."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import rda
from rda.analysis.internals import lemma_bound, look_inside
from rda.analysis.lemma import Demand, averages


def alternating(steps):
    return [1.0 if t % 2 else -1.0 for t in range(1, steps + 1)]


@given(st.floats(0.01, 0.95), st.floats(1.01, 20))
def test_the_smallest_attention_alternates_exactly(c, room):
    """Features at their extremes and that attention give averages +x, -x, +x, ..."""
    demand = Demand(c, math.atanh(c) * room)
    signs = alternating(30)
    features = [demand.x, *(sign * demand.largest for sign in signs[1:])]
    found = averages(demand.log_attention(30), features)
    expected = [sign * demand.x for sign in signs]
    # Each step is exact to a few roundings of numbers of the size of the features, and the errors
    # shrink with the share of the past, so they do not add up.
    assert found == pytest.approx(expected, abs=1e-13 * demand.largest)


@given(st.floats(0.01, 0.95), st.floats(1.01, 20), st.integers(1, 400))
def test_the_bound_of_the_lemma_is_never_violated(c, room, steps):
    demand = Demand(c, math.atanh(c) * room)
    assert demand.factor >= demand.bound
    pairs = zip(demand.log_attention(steps), demand.log_bound(steps), strict=True)
    assert all(needed >= bound for needed, bound in pairs)


@given(st.floats(0.05, 0.9), st.floats(1.1, 10), st.floats(0.0, 0.999))
def test_less_attention_than_that_does_not_reach_the_other_side(c, room, part):
    demand = Demand(c, math.atanh(c) * room)
    assume(part < 1 - 1e-6)
    first, second = demand.log_attention(2)
    less = second + math.log(part) if part else -1e9
    moved = averages([first, less], [demand.x, -demand.largest])[1]
    assert moved > -demand.x


def test_logits_grow_linearly_and_end_where_the_largest_is():
    demand = Demand(0.5, 1.0)
    logits = demand.log_attention(200)
    slopes = [later - earlier for earlier, later in pairwise(logits[1:])]
    assert slopes == pytest.approx([math.log(demand.factor)] * len(slopes))
    for limit in (0.0, 10.0, 88.7):
        longest = demand.longest(limit)
        assert logits[longest - 1] <= limit < logits[longest]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="c should be between 0 and 1"):
        Demand(1.0)
    with pytest.raises(ValueError, match="largest should be above"):
        Demand(0.9, 1.0)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_every_step_of_any_rwa_obeys_the_inequality(scale):
    """a_{t+1} / d_t >= |move of the average| / (largest feature + largest average)."""
    torch.manual_seed(0)
    layer = rda.RWA(3, 16)
    with torch.no_grad():
        layer.weight_hh_l0 *= scale
    inside = look_inside(layer, torch.randn(50, 4, 3))
    ratio, bound = lemma_bound(inside)
    # The average is a float64 of about 1: its moves are exact to 1e-15 of that.
    assert (ratio >= bound - 1e-14).all()
