"""One run over several processes whose messages NCCL sends.

NCCL refuses two processes on one GPU of one host. So that one GPU is enough for these tests, each
process says that it is on a host of its own, and their messages go through sockets.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forking import free_port

from rda.training.record import METRICS, Record

MEMBER = Path(__file__).with_name("nccl_member.py")
RUNS = ("addition", "classify-length", "multicopy", "copy", "wikipedia")
STEPS = 25
ENDLESS = "rda train addition RWA --small --steps 1000000 --stop-at never --minutes 5 --device cuda"


def start(size, *line, **more):
    common = {**os.environ, **more, "WORLD_SIZE": str(size), "LOCAL_RANK": "0"}
    common |= {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    return [
        subprocess.Popen(
            [sys.executable, *map(str, line)],
            env={
                **common,
                "RANK": str(rank),
                "NCCL_HOSTID": f"host-{rank}",
                "NCCL_SOCKET_IFNAME": "lo",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]


def losses(size, name):
    """Of each process: the losses that it saw, and whether it came to replay a recording."""
    found = []
    for process in start(size, MEMBER, name, STEPS):
        said = process.communicate()[0]
        assert process.returncode == 0, said
        found.append(json.loads(said.splitlines()[-1]))
    return found


@pytest.mark.parametrize("name", RUNS)
def test_a_team_replays_its_steps_and_trains_the_same_run(name):
    ((alone, replayed),) = losses(1, name)
    (team, *also_replayed), follower = losses(2, name)
    assert [replayed, *also_replayed, follower[1]] == [True, True, True]
    # Sums in another order, carried on by 25 steps of Adam.
    assert team == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_process_that_is_gone_is_given_up_with_one_line(tmp_path, how):
    """torch's watchdog does not see the messages of a recorded step: ours has to."""
    line = ["-m", *ENDLESS.split(), "--runs-dir", tmp_path, "--name", "run"]
    team = start(2, *line, RDA_TEAM_TIMEOUT="15")
    metrics = tmp_path / "run" / METRICS
    while team[0].poll() is None and not (
        metrics.exists() and metrics.read_bytes().count(b"\n") > 2 * STEPS
    ):
        time.sleep(0.1)
    team[1].send_signal(how)
    said = team[0].communicate()[0]
    team[1].kill()
    team[1].communicate()
    assert team[0].returncode == 1, said
    assert "waited longer than 15 seconds for them (RDA_TEAM_TIMEOUT)" in said
    assert "Traceback" not in said
    assert Record(tmp_path / "run").status.state == "failed"
