"""Runs on Ray are the runs of one process, whatever happens to their processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Cluster, why_not
from comparing_records import differences
from tiny_commands import OFTEN, SECONDS, STEPS, TINY, command, wait_for_steps


def processes_of(run):
    """The processes that have the lock of a run open: Ray gives the task no other mark here."""
    lock = os.path.realpath(run / "lock")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.path.realpath(handle) == lock for handle in (folder / "fd").iterdir()):
                yield int(folder.name)
        except OSError:
            continue


def starts(folder):
    return [len(json.loads(path.read_text())) for path in sorted(folder.glob("*/environment.json"))]


def test_a_local_ray_trains_the_same_runs_though_a_worker_is_killed(
    tmp_path, alone, ray_environment
):
    process = command([*TINY, *OFTEN, "--runs-dir", str(tmp_path), "--on", "ray"], ray_environment)
    run = wait_for_steps(tmp_path, process)
    for worker in processes_of(run):
        os.kill(worker, signal.SIGKILL)
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert f"all {STEPS} steps done" in said
    assert differences(alone, tmp_path) == []
    assert sorted(starts(tmp_path)) == [1, 2]


def test_ctrl_c_leaves_runs_that_go_on_without_ray(tmp_path, alone, ray_environment):
    process = command([*TINY, *OFTEN, "--runs-dir", str(tmp_path), "--on", "ray"], ray_environment)
    run = wait_for_steps(tmp_path, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, said
    assert "the same command goes on from here" in said
    assert json.loads((run / "status.json").read_text())["state"] == "interrupted"
    again = command([*TINY, "--runs-dir", str(tmp_path)], ray_environment)
    said, _ = again.communicate(timeout=SECONDS)
    assert again.returncode == 0, said
    assert differences(alone, tmp_path) == []


def test_a_node_that_dies_gives_its_runs_to_another(tmp_path, alone, ray_environment):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    runs = tmp_path / "runs"
    with Cluster(tmp_path / "cluster", nodes=3, cpus_of_head=0) as cluster:
        line = [*TINY, *OFTEN, "--runs-dir", str(runs), "--on", cluster.on]
        process = command(line, {**ray_environment, **cluster.environment})
        run = wait_for_steps(runs, process)
        cluster.kill(cluster.node_of(next(processes_of(run))))
        said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert differences(alone, runs) == []
    assert max(starts(runs)) > 1


def test_without_the_extra_it_is_one_line(tmp_path):
    line = [*TINY, "--runs-dir", str(tmp_path), "--on", "ray"]
    program = (
        f"import sys; sys.modules['ray'] = None; from rda.cli import main; sys.exit(main({line}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "rda: this needs the package ray, which comes with: pip install 'rda-torch[ray]'"
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--on ray://127.0.0.1:9", "no Ray cluster answers at ray://127.0.0.1:9"),
        ("--on slurm", "on should be ray, ray://auto or ray://HOST:PORT, got 'slurm'"),
        ("--on ray://host:70000", "on should be ray"),
        ("--store s3://bucket", "store goes with --on ray"),
        ("--on ray --store folder", "store should be a URL"),
        ("--on ray --gpus -1", "gpus should be 0 or more"),
        ("--seeds 0", "seeds should be 1 or more"),
        ("--name one", "--name is for one run"),
    ],
)
def test_what_cannot_be_is_one_line_and_soon(more, said, tmp_path, ray_environment):
    process = command([*TINY, "--runs-dir", str(tmp_path), *more.split()], ray_environment)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert len(printed.splitlines()) == 1
    assert said in printed
