"""The units under the paper's labels, as data: read without loading torch."""

from rda.names import unknown_name

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
"""What the label "RDA" alone stands for."""


def unit_label(name: str) -> str:
    """The full label of a unit; an error with the nearest label where there is none."""
    if name == "RDA":
        return DEFAULT
    if name not in UNIT_LABELS:
        raise ValueError(unknown_name("unit", name, UNIT_LABELS))
    return name
