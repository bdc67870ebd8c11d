"""One run over several processes is the same run, whatever happens to them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from forking import finish, free_port, start_team
from test_loop import assert_same_run
from tiny_runs import TINY_RUNS, files_for, with_steps

from rda.cli import main
from rda.training.building import build_stepper
from rda.training.record import METRICS, Record
from rda.training.running import train
from rda.training.stepper import _pieces
from rda.training.team import ALONE, Team

HERE = Path(__file__).parent
ROUNDING = 2e-5
"""Sums of gradients in another order differ by some roundings of 6e-8, which a dozen steps of Adam
carry on: it divides by the root of squares, so that small gradients lose a digit or two."""


def start(size, *line, **more):
    return start_team(size, line, HERE, **more)


def trained_by(size, folder, steps, *names, accumulate=1):
    said, codes = finish(start(size, "team_member.py", folder, steps, accumulate, *names))
    assert codes == [0] * size, "\n".join(said)


def rows(folder):
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


def assert_nearly_the_same_run(one, other):
    for row, twin in zip(rows(one), rows(other), strict=True):
        assert row.keys() == twin.keys()
        for name, value in row.items():
            assert twin[name] == pytest.approx(value, rel=ROUNDING, abs=ROUNDING), (name, row)
    assert Record(one).status.test == pytest.approx(Record(other).status.test, rel=ROUNDING)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Each tiny run by one process."""
    folder = tmp_path_factory.mktemp("alone")
    for name, settings in TINY_RUNS.items():
        settings = with_steps(settings, 12)
        train(settings, folder / name, device="cpu", files=files_for(settings), threads=1)
    return folder


@pytest.mark.parametrize(("size", "accumulate"), [(2, 1), (3, 2)])
def test_every_task_is_the_same_run_for_a_team(tmp_path, alone, size, accumulate):
    """Rows that do not divide evenly, carried states, evaluation, ragged lengths."""
    trained_by(size, tmp_path, 12, *TINY_RUNS, accumulate=accumulate)
    for name in TINY_RUNS:
        assert_nearly_the_same_run(alone / name, tmp_path / name)


@pytest.mark.parametrize("name", TINY_RUNS)
def test_a_batch_in_pieces_is_the_same_batch(tmp_path, alone, name):
    settings = with_steps(TINY_RUNS[name], 12)
    train(settings, tmp_path, device="cpu", files=files_for(settings), accumulate=3, threads=1)
    assert_nearly_the_same_run(alone / name, tmp_path)


def test_a_run_goes_on_with_another_number_of_processes(tmp_path, alone):
    """The carried state of all rows is in the checkpoint, and is dealt out again."""
    trained_by(2, tmp_path, 5, "wikipedia")
    trained_by(3, tmp_path, 9, "wikipedia")
    settings = with_steps(TINY_RUNS["wikipedia"], 12)
    train(settings, tmp_path / "wikipedia", device="cpu", files=files_for(settings), threads=1)
    assert_nearly_the_same_run(alone / "wikipedia", tmp_path / "wikipedia")


def test_killed_at_any_moment_a_team_goes_on_bit_by_bit(tmp_path):
    trained_by(2, tmp_path / "whole", 200, "wikipedia")
    generator = random.Random(0)
    for victim in (0, 1):
        team = start(2, "team_member.py", tmp_path / "cut", 200, 1, "wikipedia")
        steps = _steps(tmp_path / "cut" / "wikipedia") + generator.randrange(3, 30)
        while team[0].poll() is None and _steps(tmp_path / "cut" / "wikipedia") < steps:
            time.sleep(0.005)
        team[victim].kill()
        said, codes = finish(team)
        assert codes[victim] == -signal.SIGKILL
        assert codes[1 - victim] == 1, said  # not a hang, and not a success
    trained_by(2, tmp_path / "cut", 200, "wikipedia")
    assert_same_run(tmp_path / "whole" / "wikipedia", tmp_path / "cut" / "wikipedia")


def _steps(folder):
    path = folder / METRICS
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_torchrun_starts_a_killed_process_again(tmp_path):
    line = "-m rda train multicopy GRU --copies 2 --symbols 2 --alphabet 3 --hidden-size 8"
    line += " --batch-size 4 --steps 200 --stop-at never --device cpu --checkpoint-minutes 0"
    line += f" --runs-dir {tmp_path} --name"
    said, codes = finish(start(2, *line.split(), "whole"))
    assert codes == [0, 0], "\n".join(said)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--max-restarts", "2", "--master-port", free_port()]
    cut = subprocess.Popen(
        [*torchrun, *line.split(), "cut"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    while cut.poll() is None and _steps(tmp_path / "cut") < 50:
        time.sleep(0.01)
    children = Path(f"/proc/{cut.pid}/task/{cut.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    said = cut.communicate()[0].decode()
    assert cut.returncode == 0, said
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_process_that_does_not_answer_is_given_up_with_one_line(tmp_path):
    team = start(
        2, "-m", "rda", "train", "addition", "RWA", "--small", "--steps", "100000",
        "--stop-at", "never", "--device", "cpu", "--runs-dir", tmp_path, "--name", "run",
        RDA_TEAM_TIMEOUT="5",
    )  # fmt: skip
    while team[0].poll() is None and _steps(tmp_path / "run") < 5:
        time.sleep(0.01)
    team[1].send_signal(signal.SIGSTOP)
    said = team[0].communicate()[0]
    team[1].kill()
    team[1].communicate()
    assert team[0].returncode == 1
    assert "waited longer than 5 seconds for them (RDA_TEAM_TIMEOUT)" in said
    assert "Traceback" not in said
    assert Record(tmp_path / "run").status.state == "failed"


def test_a_run_that_has_ended_is_no_failure_to_torchrun_with_one_process(tmp_path, monkeypatch):
    line = "train addition RWA --small --batch-size 2 --steps 2 --device cpu --runs-dir"
    assert main([*line.split(), str(tmp_path / "by itself")]) == 3
    around = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    for name, value in {**around, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert main([*line.split(), str(tmp_path / "by torchrun")]) == 0


def test_more_processes_than_rows_are_refused(tmp_path):
    line = "train addition RWA --small --batch-size 1 --steps 5 --device cpu --runs-dir"
    said, codes = finish(start(2, "-m", "rda", *line.split(), tmp_path))
    assert codes == [2, 2]
    assert all("batch_size should be 2 or more" in one for one in said)


def test_rows_are_dealt_out_whole():
    for size in (1, 2, 3, 7):
        for batch in (7, 8, 100):
            rows = [Team(rank, size).rows(batch) for rank in range(size)]
            assert [row for one in rows for row in range(batch)[one]] == list(range(batch))
            for one in rows:
                pieces = list(_pieces(one, 3))
                assert [row for some in pieces for row in range(batch)[some]] == list(
                    range(batch)[one]
                )
                assert all(some.stop > some.start for some in pieces)


def test_a_process_alone_has_no_team():
    stepper = build_stepper(TINY_RUNS["addition"], torch.device("cpu"))
    assert stepper.team is ALONE
    assert ALONE.leads
    assert not torch.distributed.is_initialized()


def test_our_layers_train_inside_ddp_and_fsdp():
    said, codes = finish(start(2, "layers_in_parallel.py"))
    assert codes == [0, 0], "\n".join(said)
    assert all("all the same" in one for one in said)
