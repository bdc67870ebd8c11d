"""One run of torchrun on hosts that meet by network only, and what its record says."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PORT = 29400
TINY = [
    *("train", "multicopy", "GRU", "--copies", "2", "--symbols", "2", "--alphabet", "3"),
    *("--hidden-size", "8", "--batch-size", "4", "--stop-at", "never", "--device", "cpu"),
    *("--threads", "1", "--checkpoint-minutes", "0"),
]
"""A run that saves after every step: it goes on from there, and is slow enough to be cut off."""


def side_by_side(network, host):
    """Options of torchrun on one of two hosts, each of which must be there."""
    return [
        *("--nnodes", "2", "--node-rank", host, "--nproc-per-node", "1"),
        *("--master-addr", network.address(0), "--master-port", PORT),
    ]


def both(network, line, folder, *options, **environment):
    """Start a run on two hosts, with further options of torchrun."""
    return [
        torchrun(
            network, host, [*options, *side_by_side(network, host)], line, folder, **environment
        )
        for host in range(2)
    ]


def elastic(network, host, meeting_at):
    """Options of torchrun on a host that may be alone or have another one beside it."""
    conf = f"last_call_timeout=1,is_host={int(host == meeting_at)}"
    return [
        *("--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3"),
        *("--rdzv-backend", "c10d", "--rdzv-id", "one-run", "--rdzv-conf", conf),
        *("--rdzv-endpoint", f"{network.address(meeting_at)}:{PORT}"),
        *("--local-addr", network.address(host)),
    ]


def torchrun(network, host, options, line, folder, **environment):
    """Start torchrun on a host. What it prints goes to a file that `said` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "rda", *line]
    whole += ["--runs-dir", folder, "--name", "run"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": network.interface(host),
        # Otherwise torchrun's machines that stay do not tell one that joins where to meet.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        **environment,
    }
    with _log(folder, host).open("ab") as log:
        return subprocess.Popen(
            network.inside(host, whole), env=environment, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip


def said(folder, host):
    return _log(folder, host).read_text()


def steps(folder):
    path = folder / "run" / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def processes_of_starts(folder):
    """How many processes trained the run, from one start to the next."""
    starts = json.loads((folder / "run" / "environment.json").read_text())
    return [start["processes"] for start in starts]


def _log(folder, host):
    return folder / f"host-{host}.log"
