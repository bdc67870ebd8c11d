"""Runs that share a GPU, and the run that died."""

from dataclasses import replace

import pytest

from rda.experiments.plan import make_plan
from rda.experiments.schedule import Schedule
from rda.experiments.sharing import WORKERS, shared_gpu
from rda.scale.assignment import Assignment
from rda.scale.sharing import gpu_share
from rda.settings import Limits
from rda.training import running
from rda.training.record import Record
from rda.training.settings import default_name, full_settings, small_settings, with_changes
from rda.training.settings_file import to_toml
from rda.training.status import FAILED


class Quiet:
    def looked(self, working, waiting):
        pass

    def ended(self, one):
        assert one.status is not None, one.said


def test_runs_that_share_the_gpu_are_the_runs_they_are_alone(tmp_path):
    changes = {"steps": 60, "stop_at": "never"}
    settings = [
        with_changes(small_settings("multicopy", unit), {**changes, "seed": seed})
        for unit in ("RDA-exp-tanh", "GRU")
        for seed in (0, 1)
    ]
    plan = make_plan({default_name(run): run for run in settings}, tmp_path / "shared")
    with shared_gpu() as sharing:
        Schedule(plan, tmp_path / "shared", sharing, ["--device", "cuda"]).work(Quiet())
    for run in settings:
        shared = Record(tmp_path / "shared" / default_name(run))
        alone = running.train(run, tmp_path / "alone" / default_name(run), device="cuda")
        assert shared.environment[-1]["runs_at_once"] == sharing.workers
        # The same kernels on the same numbers; sums over a batch may take another order.
        assert shared.curve("loss")[1] == pytest.approx(alone.curve("loss")[1], rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [{"reduction": "sum"}, {"reduction": "mean", "clip_relative": 3.0}],
    ids=["summed", "mean, clipped beside the usual norm"],
)
def test_a_sudden_gradient_does_not_end_the_run(tmp_path, changes):
    """With a mean loss and no such clipping this run dies at step 5,621: a gradient of 0.85 after
    thousands of 5e-4 is one step of Adam's too far, and the next ones are 1e29 and infinite."""
    settings = with_changes(full_settings("copy", "RDA-sigmoid-id"), {**changes, "seed": 101})
    settings = replace(settings, limits=Limits(steps=5_700, stop_at="never"))
    status = running.train(settings, tmp_path / "run", device="cuda").status
    assert status.state != FAILED, status.reason
    _, losses = Record(tmp_path / "run").curve("loss")
    assert max(losses[-100:]) < 0.1


def test_a_node_measures_the_share_of_a_gpu_that_a_run_takes(monkeypatch):
    def share(settings):
        return gpu_share(Assignment("run", to_toml(settings), "runs", device="cuda"))

    small = small_settings("multicopy", "RDA-exp-tanh")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    assert share(small) == 1.0  # without the service kernels of two processes take turns
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "somewhere")
    assert share(full_settings("wikipedia", "RDA-exp-tanh")) == 1.0  # it fills the GPU
    assert 1 / WORKERS <= share(small) < 1.0
