"""kill -9 at any moment loses nothing: the run ends as if it had never been disturbed."""

from pathlib import Path

import forking
import pytest
from killing import KILLS
from test_loop import assert_same_run
from tiny_runs import TINY_RUNS, run_once, with_steps

HERE = Path(__file__).parent


def killed_runs(folder, name, steps, moments):
    """Train in processes that are killed; returns how many were."""
    code, said, complaints = forking.run(["killing.py", folder, name, steps, moments], HERE)
    assert code == 0, complaints
    return int(said)


# Copy draws its batches as multicopy does, classify-length as addition.
@pytest.mark.parametrize("name", ["addition", "multicopy", "wikipedia"])
def test_killed_at_random_moments(name, tmp_path):
    run_once(tmp_path / "whole", with_steps(TINY_RUNS[name], 200, stop_at="never"))
    assert killed_runs(tmp_path, name, 200, "random") == KILLS
    assert_same_run(tmp_path / "whole", tmp_path / "random")


def test_killed_in_every_write_from_the_start_to_the_end(tmp_path):
    name = "wikipedia"  # the writes are the same for all tasks, and it has those of an evaluation
    steps = TINY_RUNS[name].recipe.evaluate_every
    run_once(tmp_path / "whole", with_steps(TINY_RUNS[name], steps, stop_at="never"))
    writes = killed_runs(tmp_path, name, steps, "every")
    assert writes > 20
    for number in range(1, writes + 1):
        assert_same_run(tmp_path / "whole", tmp_path / str(number))
