"""A cluster of Ray nodes on one machine, each in a network namespace of its own.

A node has its own address; all traffic between nodes goes through a bridge, as between machines.
What nodes share is the disk. Needs root, and a kernel that allows network namespaces.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

SECONDS_TO_START = 60.0


def why_not():
    """Why there can be no such cluster here, or None."""
    try:
        import ray  # noqa: F401
    except ImportError:
        return "ray is not installed"
    name = f"rda-try-{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    except OSError as error:
        return f"there is no command ip ({error.strerror})"
    if made.returncode:
        return f"network namespaces are not allowed here ({made.stderr.strip()})"
    bridge = subprocess.run(
        ["ip", "link", "add", f"rdat{os.getpid()}", "type", "bridge"],
        capture_output=True, text=True,
    )  # fmt: skip
    subprocess.run(["ip", "link", "del", f"rdat{os.getpid()}"], capture_output=True)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return f"bridges are not allowed here ({bridge.stderr.strip()})" if bridge.returncode else None


class Cluster:
    """Nodes 0, 1, ..., of which the first is the head. A context that leaves nothing behind."""

    def __init__(self, folder, nodes=4, cpus=1, cpus_of_head=1):
        self.folder, self.size = Path(folder), nodes
        self.cpus = [cpus_of_head, *[cpus] * (nodes - 1)]
        self.tag = f"rda{os.getpid() % 100000}"
        self.subnet = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(24),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        self.shared = f"/tmp/{self.tag}"  # short: names of sockets have at most 107 bytes
        self.started = {}

    @property
    def on(self):
        """For the option of that name, from outside of the cluster."""
        return f"ray://{self.address(0)}:10001"

    def address(self, node):
        return f"{self.subnet}.{node + 2}"

    def namespace(self, node):
        return f"{self.tag}-{node}"

    def __enter__(self):
        try:
            self._link(f"add {self.tag} type bridge")
            self._run(f"ip addr add {self.subnet}.1/24 dev {self.tag}")
            self._link(f"set {self.tag} up")
            for node in range(self.size):
                self._connect(node)
            self.start(0)
            for node in range(1, self.size):
                self.start(node, wait=False)
            self.wait_for(self.size)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error):
        for node in range(self.size):
            self.kill(node)
            subprocess.run(["ip", "netns", "del", self.namespace(node)], capture_output=True)
        subprocess.run(["ip", "link", "del", self.tag], capture_output=True)
        with contextlib.suppress(OSError):
            Path(self.shared).rmdir()

    def start(self, node, wait=True):
        """Start Ray on a node. Each has its own folder under the name that all use for Ray's
        files, so that nodes meet by network only; other folders are seen by all."""
        # Where Ray was killed, this file says that it still runs; `ray stop` removes it.
        (self.folder / f"node-{node}" / "ray_current_cluster").unlink(missing_ok=True)
        role = (
            "--head --port=6379 --include-dashboard=false --ray-client-server-port=10001"
            if node == 0
            else f"--address={self.address(0)}:6379"
        )
        ray = Path(sys.executable).parent / "ray"
        line = (
            f"{self._mount(node)} && hostname node-{node} && "
            f"exec {ray} start {role} --node-ip-address={self.address(node)} "
            f"--temp-dir={self.shared} --num-cpus={self.cpus[node]} "
            f"--object-store-memory=80000000 --disable-usage-stats --block"
        )
        inside = ["ip", "netns", "exec", self.namespace(node), "unshare", "-u", "sh", "-c", line]
        with (self.folder / f"node-{node}.log").open("ab") as log:
            self.started[node] = subprocess.Popen(
                inside, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        if wait:
            self._wait_until_open(node)

    def kill(self, node):
        """As if the machine had lost its power: every process of the node ends at once."""
        for _ in range(50):
            found = subprocess.run(
                ["ip", "netns", "pids", self.namespace(node)], capture_output=True, text=True
            ).stdout.split()
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            if not found:
                break
            time.sleep(0.05)
        if node in self.started:
            self.started.pop(node).wait()

    def node_of(self, process):
        """The node that a process belongs to."""
        line = ["ip", "netns", "identify", str(process)]
        found = subprocess.run(line, capture_output=True, text=True).stdout.strip()
        return int(found.rpartition("-")[2])

    def wait_for(self, nodes):
        """Wait until so many nodes have joined."""
        question = (
            f"import ray, time; ray.init('{self.address(0)}:6379', log_to_driver=False)\n"
            f"while sum(node['Alive'] for node in ray.nodes()) < {nodes}: time.sleep(0.2)"
        )
        self.inside(0, [sys.executable, "-c", question], timeout=SECONDS_TO_START)

    def inside(self, node, line, timeout=None):
        """Run a command on a node and return what it printed."""
        shell = f'{self._mount(node)} && exec "$@"'
        whole = ["ip", "netns", "exec", self.namespace(node), "sh", "-c", shell, "sh", *line]
        done = subprocess.run(
            whole, env=self.environment, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _mount(self, node):
        own = self.folder / f"node-{node}"
        own.mkdir(parents=True, exist_ok=True)
        return f"mkdir -p {self.shared} && mount --bind {own} {self.shared}"

    def _wait_until_open(self, node):
        import socket

        give_up = time.monotonic() + SECONDS_TO_START
        port = 10001 if node == 0 else 0
        while port and time.monotonic() < give_up:
            with contextlib.suppress(OSError):
                socket.create_connection((self.address(node), port), 1).close()
                return
            time.sleep(0.2)

    def _connect(self, node):
        name, outer, inner = self.namespace(node), f"{self.tag}v{node}", f"{self.tag}i{node}"
        self._run(f"ip netns add {name}")
        self._link(f"add {outer} type veth peer name {inner}")
        self._link(f"set {inner} netns {name}")
        self._link(f"set {outer} master {self.tag} up")
        self._run(f"ip -n {name} addr add {self.address(node)}/24 dev {inner}")
        self._run(f"ip -n {name} link set {inner} up")
        self._run(f"ip -n {name} link set lo up")

    def _link(self, words):
        self._run(f"ip link {words}")

    def _run(self, line):
        done = subprocess.run(line.split(), capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"
