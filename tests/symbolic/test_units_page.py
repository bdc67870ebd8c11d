"""The page about writing units: its code runs."""

import json
import re
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "units.md"


def test_the_code_of_the_page_runs(capsys):
    torch.manual_seed(0)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S))
    names: dict = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert float(re.search(r"tensor\((\S+),", capsys.readouterr().out)[1]) < 1e-5
    assert "Recurrent(Peephole" in repr(names["slow"])


def test_the_times_of_the_page_are_the_recorded_ones():
    record = json.loads((ROOT / "benchmarks/results/own_unit_gpu.json").read_text())
    (part,) = (part for part in record["own_unit"] if part["precision"] == "tf32")
    times = {name: subject["median"] for name, subject in part["subjects"].items()}
    rows = re.findall(r"^\| `?([^|`]+?)`?(?: \(.*\))? \| ([\d.]+) \|", PAGE.read_text(), flags=re.M)
    assert len(rows) == 4
    for name, shown in rows:
        assert shown == f"{times[name]:.2f}", name
