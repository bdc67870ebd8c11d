"""One run on two hosts is the same run on a network that loses packets or is away for a while.

tools/network.py has longer cases: limits that are passed, hosts that die and come back, Ray.
"""

import time

import forking
import pytest
from comparing_records import differences
from hosts import TINY, both, processes_of_starts, said, steps
from network import Network, why_not

STEPS = 150
LINE = [*TINY, "--steps", STEPS]


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
    line = ["-m", "rda", *LINE, "--runs-dir", folder, "--name", "run"]
    printed, codes = forking.finish(forking.start_team(2, line))
    assert codes == [0, 0], "\n".join(printed)
    return folder


def wait_for_steps(folder, count, process):
    while steps(folder) < count:
        assert process.poll() is None, said(folder, 0) + said(folder, 1)
        time.sleep(0.01)


def finish(processes, folder):
    codes = [process.wait() for process in processes]
    assert codes == [0, 0], said(folder, 0) + said(folder, 1)


def test_a_network_that_loses_packets_changes_nothing(nft, two_hosts, undisturbed, tmp_path):
    two_hosts.lose(1, 0.01)
    finish(both(two_hosts, LINE, tmp_path), tmp_path)
    assert two_hosts.lost(1) > 0
    assert differences(undisturbed, tmp_path) == []


def test_a_cable_that_is_soon_plugged_in_again_only_delays_the_run(
    two_hosts, undisturbed, tmp_path
):
    team = both(two_hosts, LINE, tmp_path)
    wait_for_steps(tmp_path, 30, team[0])
    two_hosts.pull(1)
    time.sleep(2)
    two_hosts.plug(1)
    finish(team, tmp_path)
    assert differences(undisturbed, tmp_path) == []
    assert processes_of_starts(tmp_path) == [2]
