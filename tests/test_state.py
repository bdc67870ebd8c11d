"""The state as a value: made, taken apart, saved, mapped over, compiled."""

import copy
import io
import pickle

import pytest
import torch
from torch.utils import _pytree

import rda


@pytest.fixture
def state():
    return rda.State(torch.randn(1, 2, 4), torch.rand(1, 2, 4))


def same(one, other):
    return type(one) is type(other) and all(map(torch.equal, one, other))


def test_a_state_is_made_from_its_parts_or_from_an_iterable(state):
    average, weight = state
    assert same(state, rda.State(weight=weight, average=average))
    assert same(state, rda.State([average, weight]))
    assert same(state, type(state)(part.detach() for part in state))
    assert state._fields == ("average", "weight")
    assert state._replace(average=weight).average is weight


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_a_state_of_other_than_two_parts_is_refused(state, parts):
    with pytest.raises(TypeError):
        rda.State([state.average] * parts)
    with pytest.raises(TypeError):
        rda.State(*[state.average] * parts)


def test_a_state_is_copied_and_saved(state):
    assert same(state, copy.deepcopy(state))
    assert same(state, pickle.loads(pickle.dumps(state)))
    file = io.BytesIO()
    torch.save({"state": state}, file)
    file.seek(0)
    assert same(state, torch.load(file, weights_only=True)["state"])


def test_torch_maps_functions_over_a_state(state):
    assert same(state, _pytree.tree_map(torch.detach, state))
    assert _pytree.tree_map(lambda part: None, state) == (None, None)


def test_a_state_passes_through_a_compiled_function(state):
    def halve(state):
        return rda.State(state.average / 2, weight=state.weight)

    compiled = torch.compile(halve, fullgraph=True, backend="eager")
    assert same(halve(state), compiled(state))
