"""What every test shares: one generator, one set of choices, one thread a process."""

import itertools
from collections.abc import Callable

import pytest
import torch

from rda.activations import ATTENTION, HIDDEN, OUTPUT, Choices
from rda.scan.cuda.choosing import _known

EVERY_CHOICE = [
    *(Choices(*names) for names in itertools.product(ATTENTION, HIDDEN, OUTPUT)),
    Choices("exp", "tanh", "identity", discount=False),
]


def choice_id(choices: Choices) -> str:
    names = f"{choices.attention}-{choices.hidden}-{choices.output}"
    return names if choices.discount else f"{names}-undiscounted"


@pytest.fixture(autouse=True)
def _one_thread_a_process() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    """Tests put other limits and obstacles in place of the engines' own."""
    _known.cache_clear()


@pytest.fixture(params=EVERY_CHOICE, ids=choice_id)
def choices(request: pytest.FixtureRequest) -> Choices:
    return request.param


@pytest.fixture
def randn() -> Callable[..., torch.Tensor]:
    """Normal numbers in float64 from one seeded generator; pass dtype for another."""
    generator = torch.Generator().manual_seed(1705)

    def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return draw
