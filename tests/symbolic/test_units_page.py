"""The page about writing units: its code runs."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "units.md"


def test_the_code_of_the_page_runs(capsys):
    torch.manual_seed(0)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S))
    names: dict = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert float(re.search(r"tensor\((\S+),", capsys.readouterr().out)[1]) < 1e-5
    assert "Recurrent(Peephole" in repr(names["slow"])
