"""The page about people's own sequences: its code runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "sequences.md"


def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S))
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "['slow' 'fast' 'slow' 'fast']\n"
