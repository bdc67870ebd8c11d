"""A program of torch.export runs in a process that has no rda, at any batch and time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from own_units import HARD, Peephole
from torch import nn

import rda
from rda.exporting.checking import TOLERANCE, difference

RUN = """
import json, sys, torch
assert not any(name.split(".")[0] == "rda" for name in sys.modules)
sys.modules["rda"] = None
extra = {"start": ""}
program = torch.export.load(sys.argv[1], extra_files=extra).module()
calls = torch.load(sys.argv[2])
torch.save([program(*given, **named) for given, named in calls], sys.argv[3])
print(extra["start"])
"""


def run_without_rda(folder, path, calls):
    """The results of calls with (positional, named) arguments, and the start in the file."""
    torch.save(calls, folder / "calls.pt")
    files = [str(folder / name) for name in ("calls.pt", "results.pt")]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), *files],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return torch.load(folder / "results.pt"), json.loads(done.stdout)


def flat(results):
    output, final = results
    return [output, *((final,) if isinstance(final, torch.Tensor) else final)]


def assert_equal(found, expected):
    for one, other in zip(flat(found), flat(expected), strict=True):
        assert difference(one, other.detach()) <= TOLERANCE


def test_a_layer_with_everything(tmp_path):
    layer = rda.RDA(3, 4, 2, bidirectional=True, batch_first=True, attention="relu")
    options = {"with_state": True, "with_lengths": True}
    path = rda.export(layer, tmp_path / "layer.pt2", to="torch", **options).path
    calls = []
    for batch, time in ((1, 1), (3, 40)):
        state = torch.randn(4, batch, 4), torch.rand(4, batch, 4)
        lengths = torch.randint(time + 1, (batch,))
        calls.append(((torch.randn(batch, time, 3), state), {"lengths": lengths}))
    results, start = run_without_rda(tmp_path, path, calls)
    assert [*start] == ["initial_average", "initial_weight"]
    for (given, named), found in zip(calls, results, strict=True):
        assert_equal(found, nn.Module.__call__(layer, *given, **named))


def test_a_unit_of_ones_own_from_a_learned_start(tmp_path):
    layer = rda.Recurrent(Peephole(), 3, 4, learn_initial_state=True)
    torch.nn.init.normal_(layer.initial_c)
    path = rda.export(layer, tmp_path / "own.pt2", to="torch").path
    x = torch.randn(9, 2, 3)
    (found,), _ = run_without_rda(tmp_path, path, [((x,), {})])
    assert_equal(found, layer(x))


def test_plain_numbers_are_exact_in_float64(tmp_path):
    layer = rda.Recurrent(HARD["numbers alone"], 3, 4, dtype=torch.float64)
    path = rda.export(layer, tmp_path / "numbers.pt2", to="torch").path
    x = torch.randn(9, 2, 3, dtype=torch.float64)
    (found,), _ = run_without_rda(tmp_path, path, [((x,), {})])
    for one, other in zip(flat(found), flat(layer(x)), strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=0, atol=1e-14)


def test_a_stream_of_steps_is_the_whole(tmp_path):
    layer = rda.build("GRU", 3, 4, learn_initial_state=True)
    path = rda.export(layer, tmp_path / "step.pt2", to="torch", one_step=True).path
    extra = {"start": ""}
    program = torch.export.load(path, extra_files=extra).module()
    (start,) = (torch.tensor(values) for values in json.loads(extra["start"]).values())
    x, state, outputs = torch.randn(50, 2, 3), start.expand(-1, 2, -1), []
    for step in x:
        output, state = program(step, state)
        outputs.append(output)
    assert_equal((torch.stack(outputs), state), layer(x))


WITH_TORCH_ALONE = """
import sys
import rda
sys.modules |= dict.fromkeys(rda.EXTRA_PACKAGES)
import torch
for name in ("RDA", "LSTM"):
    layer, x = rda.build(name, 3, 4), torch.randn(9, 2, 3)
    rda.export(layer, "layer.pt2", to="torch")
    found, _ = torch.export.load("layer.pt2").module()(x)
    torch.testing.assert_close(found, layer(x)[0])
"""


def test_a_layer_is_exported_where_nothing_but_torch_is_installed(tmp_path):
    path = {**os.environ, "PYTHONPATH": str(Path(rda.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", WITH_TORCH_ALONE],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_what_torch_cannot_export_is_one_line(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise RuntimeError("no loops here\nand a long story")

    monkeypatch.setattr(torch.export, "export", refuse)
    with pytest.raises(rda.ExportError, match=r"cannot export this: no loops here$"):
        rda.export(rda.RDA(1, 1), tmp_path / "layer.pt2", to="torch")
    assert not [*tmp_path.iterdir()]
