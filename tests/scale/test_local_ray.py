"""The Ray that `--on ray` starts: who can reach it, and what is said where it does not work."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from comparing_records import differences
from tiny_commands import OFTEN, SECONDS, TINY, command, wait_for_steps

from rda.commands.train import _exit_code
from rda.scale.connecting import ClusterError, _for_us_alone, connected
from rda.training.status import Status

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same as an address of version 6, and ::1, as in /proc/net."""

HOLD = """
import os, sys
import ray  # which reads the environment
from rda.scale.connecting import connected
with connected("local") as ray:
    assert ray.get(ray.remote(lambda: 3).remote()) == 3
    context = ray.get_runtime_context()
    print(context.gcs_address, context.get_temp_dir(), flush=True)
    sys.stdin.read()
print(*(name for name in os.environ if name.startswith("RAY_AUTH")))
with connected("local") as ray:
    assert ray.get(ray.remote(lambda: 3).remote()) == 3
"""


def descendants(process):
    """The process and all that it and its descendants have started."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
    family = {process}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def listens_at(processes):
    """The addresses at which they listen, as /proc/net has them."""
    sockets = set()
    for process in processes:
        with contextlib.suppress(OSError):
            sockets |= {os.readlink(file) for file in Path(f"/proc/{process}/fd").iterdir()}
    tables = [Path("/proc/net", name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return {
        row[1].partition(":")[0]
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in sockets
    }


def answer_without_a_token(address):
    import grpc

    ask = grpc.insecure_channel(address).unary_unary("/ray.rpc.NodeInfoGcsService/GetAllNodeInfo")
    with pytest.raises(grpc.RpcError) as refused:
        ask(b"", timeout=60)
    return refused.value.code().name


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nobody_else_can_reach_it(tmp_path_factory, ray_environment):
    home = tmp_path_factory.mktemp("r")  # short: names of sockets have at most 107 bytes
    ours = {name: value for name, value in ray_environment.items() if "RAY_AUTH" not in name}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**ours, "HOME": str(home)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    said = process.stdout.readline().split()
    try:
        assert len(said) == 2, process.communicate()
        address, folder = said
        found = listens_at(descendants(process.pid))
        assert found
        assert found <= LOOPBACK
        assert answer_without_a_token(address) == "UNAUTHENTICATED"
        outside = next(place for place in Path(folder).parents if place.name.startswith("rda-ray-"))
        assert stat.S_IMODE(outside.stat().st_mode) == 0o700
    finally:
        said, complaints = process.communicate()
    assert process.returncode == 0, complaints
    assert said.split() == []  # the environment is as it was
    assert not (home / ".ray").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_when_its_node_dies_one_line_says_that_the_same_command_goes_on(
    tmp_path, alone, ray_environment
):
    line = [*TINY, "--runs-dir", str(tmp_path)]
    process = command([*line, *OFTEN, "--on", "ray"], ray_environment)
    wait_for_steps(tmp_path, process)
    for one in descendants(process.pid):
        if Path(f"/proc/{one}/comm").read_text().startswith("ray::RuntimeEnv"):
            os.kill(one, signal.SIGKILL)  # its agent, with which the node ends
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 2, said
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("rda: the node of Ray on this machine has died: every")
    again = command(line, ray_environment)
    said, _ = again.communicate(timeout=SECONDS)
    assert again.returncode == 0, said
    assert differences(alone, tmp_path) == []


@pytest.mark.parametrize(("state", "code"), [("finished", 0), ("killed", 1), ("running", 1)])
def test_a_run_that_came_to_no_end_has_an_exit_code_too(state, code):
    assert _exit_code(Status(state=state)) == code


def test_a_ray_that_asks_nobody_for_a_token_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__="2.51.2"))
    with pytest.raises(ClusterError, match=r"needs Ray 2\.52 or newer"), connected("local"):
        pass


def test_a_ray_that_cannot_be_kept_to_this_machine_is_told():
    """What does that is private to Ray: a newer one may be without it."""
    ray = SimpleNamespace(__version__="9.0")
    with pytest.raises(ClusterError, match=r"^Ray 9\.0 cannot be kept .* such as 2\.60"):
        _for_us_alone(ray).__enter__()
