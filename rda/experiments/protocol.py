"""What the paper leaves open, as runs that try the alternatives."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rda.labels import COMPARED

RDAS = ("RDA-exp-tanh", "RDA-sigmoid-id")
LEARNS_COPY = (*RDAS, "RWA", "GRU")
"""Units that the paper says learn the copy task; the LSTM's runs are the longest of all."""


@dataclass(frozen=True)
class Variant:
    """One reading of the paper: settings unlike the defaults, and the units that try it."""

    task: str
    changes: Mapping[str, Any]
    units: tuple[str, ...] = COMPARED


@dataclass(frozen=True)
class Study:
    """Readings of the paper that are compared with each other."""

    name: str
    title: str
    variants: tuple[Variant, ...]
    seeds: int = 2


STUDIES = (
    Study(
        "study-loss",
        "Is the loss a mean or a sum?",
        tuple(
            Variant(task, {"reduction": reduction}, units)
            for reduction in ("mean", "sum")
            for task, units in (
                ("classify-length", COMPARED),
                ("addition", LEARNS_COPY),
                ("multicopy", COMPARED),
                ("copy", LEARNS_COPY),
            )
        ),
    ),
    Study(
        "study-gru",
        "Do the gates of the GRU start at 0 or at 1, as in TensorFlow 1?",
        tuple(
            Variant(task, {"reduction": reduction, "gru_gate_bias": 1.0}, ("GRU",))
            for reduction in ("mean", "sum")
            for task in ("classify-length", "addition", "multicopy", "copy")
        ),
    ),
    Study(
        "study-copy",
        "Which copy task was it?",
        (
            Variant("copy", {"reduction": "sum", "delay": 100}, LEARNS_COPY),
            Variant("copy", {"reduction": "sum", "symbols": 9}, RDAS),
            Variant("copy", {"reduction": "sum", "learn_initial_state": True}, RDAS),
        ),
    ),
    Study(
        "study-multicopy",
        "Which multiple sequence copy task was it?",
        (
            Variant("multicopy", {"reduction": "sum", "alphabet": 8}, (*RDAS, "GRU", "LSTM")),
            Variant("multicopy", {"reduction": "sum", "alphabet": 10}, (*RDAS, "GRU", "LSTM")),
            Variant("multicopy", {"reduction": "sum", "symbols": 8}, (*RDAS, "GRU", "LSTM")),
        ),
    ),
    Study(
        "study-survival",
        "A run that does not die: what helps against a sudden gradient?",
        tuple(
            Variant("copy", changes, ("RDA-sigmoid-id",))
            for changes in (
                {"not_finite": "skip"},
                {"clip_norm": 1.0, "not_finite": "skip"},
                {"clip_relative": 10.0, "not_finite": "skip"},
                {"reduction": "sum", "not_finite": "skip"},
            )
        ),
    ),
)
