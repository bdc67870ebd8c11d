"""One run on two hosts is the same run on a network that loses packets, and when hosts go."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from comparing_records import differences
from hosts import TINY, elastic, processes_of_starts, said, side_by_side, steps, torchrun, workers
from network import Network, why_not

STEPS = 150
LINE = [*TINY, "--steps", STEPS]
ROUNDING = 1e-3
"""Another number of processes adds up in another order, which hundreds of steps carry on."""


@pytest.fixture
def nft():
    reason = why_not(losing=True)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def two_hosts():
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with Network(2) as network:
        yield network


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run by two processes of this machine."""
    folder = tmp_path_factory.mktemp("undisturbed")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node", "2", "-m", "rda", *map(str, LINE)]
    done = subprocess.run([*torchrun, "--runs-dir", folder, "--name", "run"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return folder


def both(network, folder, **environment):
    return [
        torchrun(network, host, side_by_side(network, host), LINE, folder, **environment)
        for host in range(2)
    ]


def wait_for_steps(folder, count, process):
    while steps(folder) < count:
        assert process.poll() is None, said(folder, 0) + said(folder, 1)
        time.sleep(0.01)


def finish(processes, folder):
    codes = [process.wait() for process in processes]
    assert codes == [0, 0], said(folder, 0) + said(folder, 1)


def test_a_network_that_loses_packets_changes_nothing(nft, two_hosts, undisturbed, tmp_path):
    two_hosts.lose(1, 0.01)
    finish(both(two_hosts, tmp_path), tmp_path)
    assert two_hosts.lost(1) > 0
    assert differences(undisturbed, tmp_path) == []


def test_a_cable_that_is_soon_plugged_in_again_only_delays_the_run(
    two_hosts, undisturbed, tmp_path
):
    team = both(two_hosts, tmp_path)
    wait_for_steps(tmp_path, 30, team[0])
    two_hosts.pull(1)
    time.sleep(2)
    two_hosts.plug(1)
    finish(team, tmp_path)
    assert differences(undisturbed, tmp_path) == []
    assert processes_of_starts(tmp_path) == [2]


def test_a_cable_that_stays_out_ends_the_run_in_time_and_it_goes_on_later(
    two_hosts, undisturbed, tmp_path
):
    team = both(two_hosts, tmp_path, RDA_TEAM_TIMEOUT="15")
    wait_for_steps(tmp_path, 30, team[0])
    two_hosts.pull(1)
    assert [process.wait() for process in team] == [1, 1]
    for host in range(2):
        lines = said(tmp_path, host).splitlines()
        given_up = f"process {host} of 2 has lost the others, or waited longer than 15 seconds"
        assert sum(given_up in line for line in lines) == 1, lines
    assert steps(tmp_path) < STEPS
    two_hosts.plug(1)
    finish(both(two_hosts, tmp_path), tmp_path)
    assert differences(undisturbed, tmp_path) == []
    assert processes_of_starts(tmp_path) == [2, 2]


def test_torchrun_goes_on_with_one_host_less_and_with_one_more(two_hosts, undisturbed, tmp_path):
    """The first host leads and is killed; it comes back, and leads again."""

    def start(host):
        return torchrun(two_hosts, host, elastic(two_hosts, host, 1), LINE, tmp_path)

    agents = [start(0), start(1)]
    wait_for_steps(tmp_path, 30, agents[1])
    two_hosts.kill(0)
    agents[0].wait()
    wait_for_steps(tmp_path, steps(tmp_path) + 30, agents[1])
    # The run waits, so that it does not end before the other host has come back.
    (alone,) = workers(two_hosts, 1)
    os.kill(alone, signal.SIGSTOP)
    agents[0] = start(0)
    while "closing signal SIGTERM" not in said(tmp_path, 1):
        assert agents[1].poll() is None, said(tmp_path, 1)
        time.sleep(0.05)
    os.kill(alone, signal.SIGCONT)
    finish(agents, tmp_path)
    assert processes_of_starts(tmp_path) == [2, 1, 2]
    rows, twins = (_rows(folder) for folder in (undisturbed, tmp_path))
    assert [row["step"] for row in twins] == [row["step"] for row in rows]
    for row, twin in zip(rows, twins, strict=True):
        assert twin["loss"] == pytest.approx(row["loss"], rel=ROUNDING)


def _rows(folder):
    metrics = folder / "run" / "metrics.jsonl"
    return [json.loads(line) for line in metrics.read_text().splitlines()]
