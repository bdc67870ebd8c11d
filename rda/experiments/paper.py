"""Tables 1 to 7 of the paper as data (arXiv 1705.08480, sections 6.3 to 6.5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rda.settings import Recipe
from rda.training.settings import RunSettings

Measure = Literal["goal_step", "accuracy", "bits"]
"""Steps to the task's goal; accuracy on the test data; bits per character on the test data."""


NAMED = {"batch_size": 100, "learning_rate": 0.001, "clip": 1.0}
"""What section 6.1 says of training all units on all tasks, Wikipedia among them."""
NOT_NAMED = (
    "schedule", "warmup_steps", "clip_norm", "clip_relative", "weight_decay", "dropout",
    "weight_dropout", "restart_probability",
)  # fmt: skip
"""Settings that it does not speak of. In the recipe's defaults they are off."""


@dataclass(frozen=True)
class Published:
    """A number of the paper. With `beyond` it says only that the true one is larger: "> 10000"."""

    value: float
    beyond: bool = False
    decimals: int = 0

    def __str__(self) -> str:
        shown = f"{self.value:,.{self.decimals}f}"
        return f"> {shown}" if self.beyond else shown


@dataclass(frozen=True)
class Table:
    """One of the paper's tables: a number for each unit on one task."""

    number: int
    task: str
    caption: str
    measure: Measure
    published: Mapping[str, Published]
    seeds: int
    """Runs of each unit that we ask for; the paper has one."""
    panel: str = ""
    """The panel of Appendix B with the learning curves of these runs; it has none of Table 7."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        return f"table-{self.number}"


def _steps(**values: int) -> dict[str, Published]:
    """A negative number stands for "more than that many steps"."""
    return {
        label: Published(abs(values[key]), beyond=values[key] < 0) for key, label in _LABELS.items()
    }


def _three_digits(**values: float) -> dict[str, Published]:
    return {label: Published(values[key], decimals=3) for key, label in _LABELS.items()}


_LABELS = {
    "exp_tanh": "RDA-exp-tanh",
    "sigmoid_id": "RDA-sigmoid-id",
    "rwa": "RWA",
    "lstm": "LSTM",
    "gru": "GRU",
}

TABLES = (
    Table(
        1,
        "addition",
        "Addition: steps until loss < 0.001",
        "goal_step",
        _steps(gru=2036, lstm=-10_000, exp_tanh=1781, sigmoid_id=2016, rwa=1735),
        seeds=5,
        panel="a",
    ),
    Table(
        2,
        "classify-length",
        "Classify length: steps until accuracy = 1.0",
        "goal_step",
        _steps(gru=71, lstm=776, exp_tanh=164, sigmoid_id=414, rwa=133),
        seeds=5,
        panel="b",
    ),
    Table(
        3,
        "mnist",
        "MNIST: accuracy on the test set",
        "accuracy",
        _three_digits(gru=0.985, lstm=0.114, exp_tanh=0.985, sigmoid_id=0.987, rwa=0.979),
        seeds=3,
        panel="e",
    ),
    Table(
        4,
        "mnist-permuted",
        "MNIST permuted: accuracy on the test set",
        "accuracy",
        _three_digits(gru=0.944, lstm=0.915, exp_tanh=0.905, sigmoid_id=0.913, rwa=0.899),
        seeds=3,
        panel="f",
    ),
    Table(
        5,
        "copy",
        "Copy: steps until accuracy > 0.999",
        "goal_step",
        _steps(gru=5329, lstm=-20_000, exp_tanh=11_831, sigmoid_id=9840, rwa=5660),
        seeds=3,
        panel="c",
    ),
    Table(
        6,
        "multicopy",
        "Multiple sequence copy: steps until accuracy > 0.99",
        "goal_step",
        _steps(gru=3984, lstm=4048, exp_tanh=1114, sigmoid_id=1316, rwa=-10_000),
        seeds=5,
        panel="d",
    ),
    Table(
        7,
        "wikipedia",
        "Wikipedia: bits per character on the test set",
        "bits",
        _three_digits(gru=1.535, lstm=1.492, exp_tanh=1.532, sigmoid_id=1.529, rwa=5.067),
        seeds=3,
    ),
)


def find_table(task: str) -> Table | None:
    """The table of a task, if the paper has one."""
    return next((table for table in TABLES if table.task == task), None)


def unlike_section_6_1(settings: RunSettings) -> list[str]:
    """The names of the settings in which a run is not trained as section 6.1 says."""
    recipe, usual = settings.recipe, Recipe()
    expected = {**{name: getattr(usual, name) for name in NOT_NAMED}, **NAMED}
    return [name for name, value in expected.items() if getattr(recipe, name) != value]
