"""The page about estimators: its code runs and prints what it says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"


def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S))
    exec(compile(code, str(PAGE), "exec"), {})
    promised = re.findall(r"print\(.*\)  # (.*)", code)
    assert capsys.readouterr().out.splitlines() == promised
