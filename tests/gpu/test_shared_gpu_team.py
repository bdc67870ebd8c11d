"""One run over several processes on a machine with a GPU."""

import subprocess
import sys

import pytest

from rda.training.record import Record

RUN = "train multicopy RDA-exp-tanh --small --steps 40 --stop-at never --runs-dir"


def losses(folder, name, *more, processes=1):
    line = ["-m", "rda", *RUN.split(), str(folder), "--name", name, *more]
    if processes > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        line = [*launcher, "--nproc-per-node", str(processes), *line]
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return Record(folder / name).curve("loss")[1]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_processes_that_share_a_gpu_or_use_none_train_the_same_run(tmp_path, device):
    alone = losses(tmp_path, "alone", "--device", device)
    team = losses(tmp_path, "team", "--device", device, processes=2)
    # Sums in another order, carried on by forty steps of Adam.
    assert team == pytest.approx(alone, rel=1e-3)
