"""Whole numbers are labels or amounts: what the problem, or the model, says that they are."""

import numpy as np
import pytest

from rda.cli import main
from rda.tasks import TaskError
from rda.tasks.own_sequences import OwnSequences

MACHINES = 24
QUICK = ["--steps", "2", "--hidden-size", "4", "--threads", "1"]


def machines(folder, count=MACHINES, name="machines.csv"):
    """Cycles with the number of those that are left, and a grade of each machine."""
    noise = np.random.default_rng(0)
    rows = [
        f"m{m},{c},{noise.normal():.3f},{20 - c},{1 + m % 3}"
        for m in range(count)
        for c in range(1, 21)
    ]
    path = folder / name
    path.write_text("\n".join(["machine,cycle,s,left,grade", *rows]))
    return str(path)


def test_few_whole_numbers_are_learned_as_numbers_where_that_is_asked_for(tmp_path):
    data = machines(tmp_path)
    by_itself = OwnSequences(data=data, target="left", ignore="grade")
    assert by_itself.understood().problem == "labels"
    advice = (
        "the 20 different numbers of left are labels; --problem numbers learns how large they are"
    )
    assert advice in by_itself.told()
    asked = OwnSequences(data=data, target="left", ignore="grade", problem="numbers")
    assert "to be learned: a number for every step, left, 0 to 19" in asked.told()
    assert not any("labels" in line for line in asked.told())
    assert asked.read().target.values.tolist() == [20.0 - c for c in range(1, 21)] * MACHINES
    grades = OwnSequences(data=data, target="grade", ignore="left", problem="number")
    assert "to be learned: a number for each sequence, grade, 1 to 3" in grades.told()
    assert grades.read().target.values.tolist() == [1.0, 2.0, 3.0] * (MACHINES // 3)


def test_whole_numbers_are_labels_where_that_is_asked_for(tmp_path):
    rows = [f"{m},{c},{c * m % 5},{7 * m}" for m in range(6) for c in range(8)]
    (tmp_path / "a.csv").write_text("\n".join(["id,t,x,kind", *rows]))
    task = OwnSequences(data=str(tmp_path / "a.csv"), target="kind")
    assert task.understood().problem == "number"
    assert task.understood().read().target.values.tolist() == [0, 7, 14, 21, 28, 35]
    asked = OwnSequences(data=task.data, target="kind", problem="label")
    assert asked.read().target.classes == ("0", "7", "14", "21", "28", "35")
    with pytest.raises(TaskError, match="x is a number for each step, which is not the problem n"):
        OwnSequences(data=task.data, target="x", problem="number").told()


@pytest.mark.parametrize(("target", "problem"), [("grade", "label"), ("grade", "number")])
def test_few_sequences_are_evaluated_as_those_of_training(tmp_path, capsys, target, problem):
    """Of three machines with the grades 1, 2 and 3 nothing tells that these are labels."""
    data, few = machines(tmp_path), machines(tmp_path, 3, "few.csv")
    line = ["train", "--data", data, "GRU", "--target", target, "--ignore", "left"]
    run = str(tmp_path / "run")
    line += ["--problem", problem, *QUICK, "--runs-dir", str(tmp_path), "--name", "run"]
    assert main(line) == 0
    capsys.readouterr()
    page = str(tmp_path / "page.html")
    assert main(["evaluate", run, "--data", few, "--page", page]) == 0
    metric = "accuracy" if problem == "label" else "mean absolute error"
    assert capsys.readouterr().out.startswith(f"{metric} of grade: ")
    assert main(["evaluate", run, "--data", data, "--page", page]) == 0
