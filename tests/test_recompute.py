"""What is said about the paper's tables is what the raw records give, without anything of rda."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "recompute.py"


@pytest.fixture
def recompute(monkeypatch):
    """The tool as a module."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    return importlib.import_module("recompute")


def test_readme_and_report_have_the_numbers_of_the_raw_records():
    """Run without any installed package."""
    command = [sys.executable, "-I", "-S", str(TOOL)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *cells, verdict = done.stdout.splitlines()
    assert len(cells) == 35
    assert verdict == "35 cells agree, and every file with its digest"


def test_a_number_that_the_records_do_not_give_is_found(recompute):
    cells, wrong = recompute.recomputed(ROOT / "results" / "paper")
    assert not wrong
    readme = (ROOT / "README.md").read_text().replace("45 (71)", "46 (71)")
    (line,) = recompute.differences_of_readme(cells, readme)
    assert line == "README.md, Classify length, GRU: 46 (71), recomputed 45 (71)"
    report = (ROOT / "docs" / "report" / "report.md").read_text().replace("45 (31 to", "45 (30 to")
    (line,) = recompute.differences_of_report(cells, report)
    assert line == "report.md, Table 2: no row of GRU | 71 | 45 (31 to 69)"


@pytest.mark.parametrize(
    ("name", "part", "key", "value", "said"),
    [
        ("addition-GRU-seed0", "status", "goal_step", 2321, "another goal or best evaluation"),
        ("mnist-GRU-seed0", "status", "best_step", 1, "another goal or best evaluation"),
        ("copy-RWA-seed0", "recipe", "learning_rate", 0.002, "learning_rate is 0.002"),
        ("wikipedia-RWA-seed0", "recipe", "hidden_size", 900, "hidden_size is 900"),
        ("multicopy-RWA-seed0", "status", "state", "failed", "it is failed"),
        ("multicopy-RWA-seed0", "status", "step", 1, "do not end at step 1"),
        ("multicopy-RWA-seed0", "task", "name", "copy", "settings of another run"),
    ],
)
def test_a_record_that_contradicts_itself_or_the_paper_is_found(
    recompute, name, part, key, value, said
):
    task, unit, _ = name.split("-")
    (table,) = [table for table in recompute.TABLES if table.task == task]
    run = recompute.read(ROOT / "results" / "paper" / name)
    assert list(recompute.misfits(table, unit, 0, run)) == []
    run[part][key] = value
    assert said in " ".join(recompute.misfits(table, unit, 0, run))


def test_a_changed_a_missing_and_an_unsealed_file_are_found(recompute, tmp_path):
    name = "paper/wikipedia-RWA-seed0"
    shutil.copytree(ROOT / "results" / name, tmp_path / name)
    sealed = (ROOT / "results" / recompute.LATER).read_text().splitlines(keepends=True)
    later = tmp_path / recompute.LATER
    later.write_text("".join(line for line in sealed if f"{name}/" in line))
    assert list(recompute.differences_of_files(tmp_path)) == []
    with (tmp_path / name / "metrics.jsonl").open("a") as file:
        file.write("\n")
    (tmp_path / name / "samples.jsonl").unlink()
    (tmp_path / name / "notes.txt").write_text("new")
    found = [line.split()[0] for line in recompute.differences_of_files(tmp_path)]
    assert found == [f"{name}/{file}" for file in ("metrics.jsonl", "notes.txt", "samples.jsonl")]
