"""What a type checker tells people who use the units."""

from pathlib import Path
from typing import get_args

from mypy import api

from rda import baselines
from rda.activations import ATTENTION, HIDDEN, OUTPUT, AttentionName, OutputName
from rda.scan.cuda.choosing import WAYS
from rda.scan.engines import ENGINES, EngineName

ROOT = Path(__file__).parents[1]
SNIPPET = """
from typing import assert_type

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

import rda
from rda.baselines import GRU, LSTM

def right(x: Tensor, packed: PackedSequence, name: str) -> None:
    layer = rda.RDA(3, 4, attention=torch.exp)
    assert_type(layer(x), tuple[Tensor, rda.State])
    assert_type(layer.forward(packed), tuple[PackedSequence, rda.State])
    assert_type(layer(x, lengths=x)[1].weight, Tensor)
    assert_type(rda.RDACell(3, 4)(x), rda.State)
    assert_type(rda.build("RDA-softplus-id", 3, 4), rda.RDA)
    assert_type(rda.build("RWA", 3, 4), rda.RWA)
    assert_type(rda.build("LSTM", 3, 4), LSTM)
    assert_type(rda.build(name, 3, 4), rda.RDA | rda.RWA | LSTM | GRU)
    assert_type(rda.State(x, x), rda.State)
    assert_type(rda.State(part.detach() for part in (x, x)), rda.State)

def wrong(x: Tensor) -> None:
    rda.RDA(3, 4, attention="bogus")
    rda.RDA(3, 4, engine="bogus")
    rda.RDACell(3, 4, output="bogus")
    rda.functional.Choices(hidden="bogus")
    rda.RDA(3, 4)(3)
"""


def test_results_have_their_types_and_wrong_names_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    (tmp_path / "snippet.py").write_text(SNIPPET)
    options = (
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "types"),
    )
    told, problems, _ = api.run([*options, str(tmp_path / "snippet.py")])
    assert not problems
    found = sorted({int(line.split(":")[1]) for line in told.splitlines() if ": error:" in line})
    lines = SNIPPET.splitlines()
    start = lines.index("def wrong(x: Tensor) -> None:") + 1
    assert found == list(range(start + 1, len(lines) + 1)), told


def test_the_names_for_type_checkers_are_the_names():
    assert get_args(AttentionName) == tuple(ATTENTION)
    assert get_args(OutputName) == tuple(HIDDEN) == tuple(OUTPUT)
    assert get_args(EngineName) == ("auto", *ENGINES)
    assert get_args(baselines.EngineName) == ("auto", "torch", *WAYS)
