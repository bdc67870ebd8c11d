"""The way of a batch from a layer to a kernel stays short enough to be read and stepped through."""

import ast
import traceback
from pathlib import Path

import pytest
import torch

import rda
from rda.scan.eager import Eager

MOST_CALLS = 8
MOST_ARGUMENTS = 7


@pytest.mark.parametrize("unit", ["RDA-exp-tanh", "RWA", "LSTM", "GRU"])
def test_few_calls_lie_between_a_layer_and_its_kernel(unit, monkeypatch):
    ways = []
    forward = Eager.forward

    def looked_at(self, *given):
        ways.append(traceback.extract_stack()[:-1])
        return forward(self, *given)

    monkeypatch.setattr(Eager, "forward", looked_at)
    layer = rda.build(unit, 3, 4, engine="eager")
    layer(torch.randn(5, 2, 3))
    (way,) = ways
    package = str(Path(rda.__file__).parent)
    ours = [frame.name for frame in way if frame.filename.startswith(package)]
    assert ours[0] == "forward"
    assert len(ours) <= MOST_CALLS


def test_no_function_of_the_scan_takes_a_long_row_of_arguments():
    for file in (Path(rda.__file__).parent / "scan").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                assert len([name for name in names if name != "self"]) <= MOST_ARGUMENTS, node.name
