"""What all tests share: a clean start for each test, seeded numbers, a random order on request."""

import importlib
import itertools
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

# OpenMP reads this when torch is imported. Threads that spin while they wait would take the cores
# from the other test processes: on a busy machine tests with two threads took twenty times longer.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
import torch
from hypothesis import HealthCheck, settings

from rda.activations import ATTENTION, HIDDEN, OUTPUT, Choices
from rda.scan import dispatch
from rda.scan.cpu import build

# Otherwise each test process, and each of their many children, compiles our modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

EVERY_CHOICE = [
    *(Choices(*names) for names in itertools.product(ATTENTION, HIDDEN, OUTPUT)),
    Choices("exp", "tanh", "identity", discount=False),
]

# A busy machine may be ten times slower: Hypothesis must not count that as a failure.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--random-order", type=int, metavar="SEED", help="shuffle all tests")


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("random_order")
    return None if seed is None else f"random order: seed {seed}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("random_order")
    if seed is not None:
        random.Random(seed).shuffle(items)
    reason = missing_compiler()
    for item in items:
        if reason and needs_compiler(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def missing_compiler() -> str | None:
    """Why the compiled engine cannot be tested here, or None."""
    try:
        build.compiler()
    except build.BuildError as error:
        return str(error)
    return None


def needs_compiler(item: pytest.Item) -> bool:
    """Whether a test is marked so, or is that of the compiled engine among those of all engines."""
    parameters = getattr(item, "callspec", None)
    engine = parameters.params.get("engine") if parameters else None
    return engine == "cpu" or item.get_closest_marker("needs_compiler") is not None


def choice_id(choices: Choices) -> str:
    names = f"{choices.attention}-{choices.hidden}-{choices.output}"
    return names if choices.discount else f"{names}-undiscounted"


@pytest.fixture(autouse=True)
def _clean_start() -> None:
    """Reset what one test could leave behind for the next one in the same process."""
    torch.set_num_threads(1)
    torch.manual_seed(1705)
    torch.set_warn_always(True)  # by default only the first test that causes a warning gets it
    # torch.compile compiles a function at most eight times; later calls raise with fullgraph=True.
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    # "none" is inherited; training replaces it by "ieee", which torch's older switches restore.
    for switch in (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul):
        switch.fp32_precision = "none"
    # Tests replace the limits and obstacles from which these answers came.
    dispatch._chosen.cache_clear()
    dispatch._told.clear()  # each warning is shown once in a process


@pytest.fixture(params=EVERY_CHOICE, ids=choice_id)
def choices(request: pytest.FixtureRequest) -> Choices:
    found: Choices = request.param
    return found


@pytest.fixture
def randn() -> Callable[..., torch.Tensor]:
    """Normal numbers in float64 from one seeded generator; pass dtype for another."""
    generator = torch.Generator().manual_seed(1705)

    def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return draw


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool that writes what the repository says about its recorded runs."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "tools"))
    return importlib.import_module("publish")


@pytest.fixture
def benchmarks(monkeypatch):
    """The folder of the benchmarks, whose modules can then be imported."""
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def table(benchmarks):
    """The module that writes the tables of the benchmarks."""
    return importlib.import_module("table")
