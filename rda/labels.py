"""The units under the paper's labels, as data: nothing here imports torch."""

from typing import Literal

from rda.names import look_up

RDALabel = Literal[
    "RDA",
    "RDA-exp-tanh",
    "RDA-exp-id",
    "RDA-sigmoid-tanh",
    "RDA-sigmoid-id",
    "RDA-softplus-tanh",
    "RDA-softplus-id",
    "RDA-relu-tanh",
    "RDA-relu-id",
]
"""For type checkers: what `rda.build` makes an `rda.RDA` of."""

ATTENTION_LABELS = ("exp", "sigmoid", "softplus", "relu")
OUTPUT_LABELS = {"tanh": "tanh", "id": "identity"}

RDA_LABELS: dict[str, tuple[str, str]] = {
    f"RDA-{attention}-{label}": (attention, output)
    for attention in ATTENTION_LABELS
    for label, output in OUTPUT_LABELS.items()
}
"""Label -> (f_a, f_o) of every RDA that section 6.2 tries; f_h is the identity in all."""

COMPARED = ("RDA-exp-tanh", "RDA-sigmoid-id", "RWA", "LSTM", "GRU")
"""The five units of the paper's tables, in its order of interest."""

UNIT_LABELS = (*COMPARED, *(label for label in RDA_LABELS if label not in COMPARED))

DEFAULT = "RDA-exp-tanh"
"""The label that "RDA" alone stands for."""


def unit_label(name: str) -> str:
    """The full label of a unit. An unknown name is an error that tells the nearest label."""
    return look_up("unit", name, {"RDA": DEFAULT, **{label: label for label in UNIT_LABELS}})
