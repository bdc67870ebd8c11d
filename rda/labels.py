"""The units under the paper's labels, as data: read without loading torch."""

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
