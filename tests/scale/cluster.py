"""A cluster of Ray nodes on one machine, each in a network namespace of its own.

A node has its own address; all traffic between nodes goes through a bridge, as between machines.
What nodes share is the disk. Needs root, and a kernel that allows network namespaces.
"""

import contextlib
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import network

SECONDS_TO_START = 60.0


def why_not():
    """Why there can be no such cluster here, or None."""
    try:
        import ray  # noqa: F401
    except ImportError:
        return "ray is not installed"
    return network.why_not()


class Cluster(network.Network):
    """Nodes 0, 1, ..., of which the first is the head. A context that leaves nothing behind."""

    def __init__(self, folder, nodes=4, cpus=1, cpus_of_head=1):
        super().__init__(nodes)
        self.folder = Path(folder)
        self.cpus = [cpus_of_head, *[cpus] * (nodes - 1)]
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

    def __enter__(self):
        super().__enter__()
        try:
            self.start(0)
            for node in range(1, self.size):
                self.start(node, wait=False)
            self.wait_for(self.size)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error):
        super().__exit__(*error)
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
        inside = self.inside(node, ["unshare", "-u", "sh", "-c", line])
        with (self.folder / f"node-{node}.log").open("ab") as log:
            self.started[node] = subprocess.Popen(
                inside, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        if wait:
            self._wait_until_open(node)

    def kill(self, node):
        """As if the machine had lost its power: every process of the node ends at once."""
        super().kill(node)
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
        shell = f'{self._mount(0)} && exec "$@"'
        line = self.inside(0, ["sh", "-c", shell, "sh", sys.executable, "-c", question])
        done = subprocess.run(
            line, env=self.environment, capture_output=True, text=True, timeout=SECONDS_TO_START
        )
        assert done.returncode == 0, done.stdout + done.stderr

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
