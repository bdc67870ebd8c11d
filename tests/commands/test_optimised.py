"""Python may leave out docstrings and assertions (-OO): the commands work without either."""

import ast
import subprocess
import sys
from pathlib import Path

import rda

PACKAGE = Path(rda.__file__).parent
EVERYTHING = """
import rda, torch
from rda.cli import main
assert False, "assertions are on"
small = ["--small", "--hidden-size", "4", "--steps", "2", "--name", "one"]
codes = [main(["train", "addition", "RWA", *small]), main(["show", "one"]), main(["runs"])]
model = rda.load("runs/one")
print(codes, model.training, tuple(model(torch.zeros(3, 2, 2))[0].shape))
"""


def optimised(*words, cwd=None):
    done = subprocess.run(
        [sys.executable, "-OO", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done


def help_of(*command):
    done = optimised("-m", "rda", *command, "--help")
    assert done.returncode == 0
    return " ".join(done.stdout.split())


def test_help_falls_back_to_the_name_of_a_task():
    assert "rda train --help" in help_of()
    assert "addition Addition alternating Alternating" in help_of("train")
    told = help_of("train", "addition")
    assert "options] Addition Units:" in told
    assert "Start over, even where the run is finished." in told


def test_a_run_is_trained_shown_and_loaded(tmp_path):
    said = optimised("-c", EVERYTHING, cwd=tmp_path).stdout
    assert said.splitlines()[-1] == "[3, 0, 0] False (2, 1)"


def test_no_assertion_does_anything():
    """They only tell the type checker what is so: without them the same happens."""
    for path in PACKAGE.rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.Assert):
                nodes = list(ast.walk(found.test))
                calls = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
                where = f"{path.relative_to(PACKAGE)}:{found.lineno}"
                assert set(calls) <= {"isinstance"}, where
                assert not [node for node in nodes if isinstance(node, ast.NamedExpr)], where
