"""The names that type checkers know; tests/typing_examples.py has the calls that they check."""

from typing import get_args

from rda import baselines
from rda.activations import ATTENTION, HIDDEN, OUTPUT, AttentionName, OutputName
from rda.scan.engines import ENGINES, EngineName


def test_the_names_for_type_checkers_are_the_names():
    assert get_args(AttentionName) == tuple(ATTENTION)
    assert get_args(OutputName) == tuple(HIDDEN) == tuple(OUTPUT)
    assert get_args(EngineName) == ("auto", *ENGINES)
    assert get_args(baselines.EngineName) == ("auto", "torch", *ENGINES)
