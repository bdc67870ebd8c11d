"""The page about export: its code runs, and a stream is the whole."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "export.md"


def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    torch.manual_seed(0)
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S))
    exec(compile(code, str(PAGE), "exec"), {})
    stream, program = re.findall(r"\d\S*e-\d+", capsys.readouterr().out)
    assert float(stream) < 1e-5
    assert float(program) < 1e-5
    assert {path.name for path in tmp_path.iterdir()} == {"layer.onnx", "step.onnx", "layer.pt2"}
