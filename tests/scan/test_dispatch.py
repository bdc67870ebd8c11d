"""The only door to the engines: what it picks, what it says, what it refuses."""

import pytest
import torch

import rda
from rda.activations import Choices
from rda.functional import LogState, scan, select
from rda.scan import dispatch, op
from rda.scan.engines import ENGINES, InPlainTorch, Obstacle


@pytest.fixture
def picky(monkeypatch):
    """A faster engine that serves nothing but RDA-exp-tanh."""

    class Picky(InPlainTorch):
        def obstacle(self, work):
            known = work.key == "RDA exp identity tanh"
            return None if known else Obstacle("it knows RDA-exp-tanh alone", False)

    engine = Picky("picky", "a test's own")
    table = {"picky": engine, "reference": ENGINES["reference"]}
    for module in (dispatch, op):
        monkeypatch.setattr(module, "ENGINES", table)


def test_auto_takes_the_first_engine_that_serves_and_says_why(picky):
    projected = torch.randn(2, 1, 4)
    assert select("auto", projected, Choices()) == ("picky", "a test's own")
    chosen = select("auto", projected, Choices("relu"))
    assert chosen.name == "reference"
    assert "not picky: it knows RDA-exp-tanh alone" in chosen.reason


def test_an_engine_asked_for_by_name_that_cannot_serve_raises_and_says_why(picky):
    layer = rda.RDA(2, 3, attention="relu", engine="picky")
    with pytest.raises(
        rda.EngineUnavailableError, match="'picky' cannot serve this call: it knows"
    ):
        layer(torch.randn(4, 1, 2))
    assert rda.RDA(2, 3, engine="picky")(torch.randn(4, 1, 2))[0].shape == (4, 1, 3)


def test_an_unknown_engine_gets_the_nearest_name():
    with pytest.raises(ValueError, match="Did you mean 'reference'"):
        scan(torch.randn(2, 1, 4), torch.randn(3, 1), engine="refrence")


def test_the_reference_serves_everything():
    assert select("reference", torch.randn(2, 1, 4), Choices(torch.exp)).name == "reference"


PROJECTED, WEIGHT = torch.randn(5, 2, 12), torch.randn(9, 3)
WRONG = {
    "rank": (RuntimeError, "(5, 12)", lambda: scan(PROJECTED[:, 0], WEIGHT)),
    "no steps": (RuntimeError, "(0, 2, 12)", lambda: scan(PROJECTED[:0], WEIGHT)),
    "blocks": (RuntimeError, "(5, 2, 11)", lambda: scan(PROJECTED[..., :11], WEIGHT)),
    "weight": (RuntimeError, "(8, 3)", lambda: scan(PROJECTED, WEIGHT[:8])),
    "undiscounted": (
        RuntimeError,
        "(6, 3)",
        lambda: scan(PROJECTED, WEIGHT, choices=Choices(discount=False)),
    ),
    "no features": (
        RuntimeError,
        "at least one feature",
        lambda: scan(torch.randn(5, 2, 0), WEIGHT, input_weight=torch.randn(12, 0)),
    ),
    "weight dtype": (ValueError, "float64", lambda: scan(PROJECTED, WEIGHT.double())),
    "integers": (ValueError, "int64", lambda: scan(PROJECTED.long(), WEIGHT.long())),
    "weight device": (RuntimeError, "meta", lambda: scan(PROJECTED, WEIGHT.to("meta"))),
    "state shape": (
        RuntimeError,
        "(2, 3)",
        lambda: scan(PROJECTED, WEIGHT, LogState(torch.zeros(3, 3), torch.zeros(3, 3))),
    ),
    "state dtype": (
        ValueError,
        "float32",
        lambda: scan(PROJECTED, WEIGHT, LogState(torch.zeros(2, 3).half(), torch.zeros(2, 3))),
    ),
    "state device": (
        RuntimeError,
        "meta",
        lambda: scan(PROJECTED, WEIGHT, LogState(torch.zeros(2, 3), torch.zeros(2, 3).to("meta"))),
    ),
    "state of three": (
        RuntimeError,
        "two tensors",
        lambda: scan(PROJECTED, WEIGHT, (torch.zeros(2, 3),) * 3),
    ),
    "lengths shape": (
        RuntimeError,
        "(2,)",
        lambda: scan(PROJECTED, WEIGHT, lengths=torch.tensor([5])),
    ),
    "lengths dtype": (
        ValueError,
        "float32",
        lambda: scan(PROJECTED, WEIGHT, lengths=torch.tensor([5.0, 2.0])),
    ),
    "lengths too long": (
        ValueError,
        "from 0 to 5",
        lambda: scan(PROJECTED, WEIGHT, lengths=torch.tensor([6, 2])),
    ),
    "lengths negative": (
        ValueError,
        "-1",
        lambda: scan(PROJECTED, WEIGHT, lengths=torch.tensor([-1, 2])),
    ),
}


@pytest.mark.parametrize("title", WRONG)
def test_wrong_tensors_are_refused_with_the_shapes(title):
    error, part, call = WRONG[title]
    with pytest.raises(error) as caught:
        call()
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("input", {"input": [1.0]}),
        ("input_weight", {"input_weight": [1.0]}),
        ("bias", {"bias": 3, "input_weight": torch.randn(12, 12)}),
        ("recurrent_weight", {"recurrent_weight": None}),
        ("choices", {"choices": "exp"}),
        ("state", {"state": 3}),
        ("state.r", {"state": (None, None)}),
        ("lengths", {"lengths": [3, 2]}),
    ],
)
def test_what_is_no_tensor_is_refused_by_name(name, arguments):
    with pytest.raises(TypeError, match=f"^{name} should be a"):
        scan(**{"input": PROJECTED, "recurrent_weight": WEIGHT, **arguments})


def test_choices_refuse_what_is_neither_name_nor_callable():
    with pytest.raises(TypeError, match="hidden should be a name or a callable, got: float"):
        Choices(hidden=1.0)


def test_a_layer_of_ones_own_is_a_projection_and_a_scan():
    torch.manual_seed(0)
    layer, x = rda.RDA(3, 4), torch.randn(5, 2, 3)
    projected = torch.nn.functional.linear(x, layer.weight_ih_l0, layer.bias_l0)
    expected, final = layer(x)
    for output, state in (
        scan(projected, layer.weight_hh_l0),
        scan(x, layer.weight_hh_l0, input_weight=layer.weight_ih_l0, bias=layer.bias_l0),
    ):
        # The projection's sums may be taken in another order: a few float32 roundings.
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(state.r, final.average[0], rtol=0, atol=1e-6)
