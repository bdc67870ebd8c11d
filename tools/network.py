"""One run on two hosts, and runs on Ray, over a network that loses packets and is cut.

python tools/network.py                   every case: 8 minutes on 2 cores
python tools/network.py loss-1 elastic    some of them

Hosts stand on this machine, each in a network namespace of its own (needs root, and nft). Every
record is compared with that of the same command on an undisturbed network; it must be the same,
byte for byte, or after another number of processes equal to rounding. Prints a line for each case.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "scale"))

from cluster import Cluster
from comparing_records import differences
from hosts import ROOT, TINY, both, elastic, processes_of_starts, steps, torchrun
from network import Network, why_not

LINE = [*TINY[:-1], "0.005", "--steps", "1000"]
ON_RAY = ["compare", "multicopy", "--small", "--seeds", "1", "--steps", "300"]
SECONDS_CUT = 20.0
SHORT_LIMIT = {"RDA_TEAM_TIMEOUT": "5"}
"""Seconds, beside which a cable stays out for longer."""


def main():
    asked = read_options()
    reason = why_not(losing=True)
    if reason:
        sys.exit(f"this needs hosts of its own, which cannot be: {reason}")
    failed = False
    with tempfile.TemporaryDirectory(prefix="rda-network-") as place:
        for name in asked.cases or CASES:
            started = time.monotonic()
            found = CASES[name](Path(place))
            line = {"case": name, "seconds": round(time.monotonic() - started), **found}
            print(json.dumps(line), flush=True)
            failed = failed or bool(found.get("differences"))
    sys.exit(failed)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    asked = parser.parse_args()
    unknown = [name for name in asked.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}: {', '.join(CASES)}")
    return asked


def undisturbed(place):
    folder = place / "undisturbed"
    if not folder.exists():
        with Network(2) as network:
            codes = [process.wait() for process in both(network, LINE, folder)]
        if codes != [0, 0]:
            sys.exit(f"two hosts on an undisturbed network ended with {codes}")
    return folder


def wait_for_steps(folder, count, process):
    while steps(folder) < count:
        if process.poll() is not None:
            sys.exit(f"a run ended at step {steps(folder)}, before anything was done to it")
        time.sleep(0.01)


def loses(share):
    """A case: the cable of a host loses this share of its packets."""

    def case(place):
        expected, folder = undisturbed(place), place / f"loses-{share}"
        with Network(2) as network:
            network.lose(1, share)
            codes = [process.wait() for process in both(network, LINE, folder)]
            lost = network.lost(1)
        return {"codes": codes, "lost": lost, "differences": differences(expected, folder)}

    return case


def cut(name, *options, **environment):
    """A case: a cable is out for a while, and in again."""

    def case(place):
        expected, folder = undisturbed(place), place / name
        with Network(2) as network:
            team = both(network, LINE, folder, *options, **environment)
            wait_for_steps(folder, 100, team[0])
            network.pull(1)
            time.sleep(SECONDS_CUT)
            network.plug(1)
            codes = [process.wait() for process in team]
        found = {"codes": codes, "starts": len(processes_of_starts(folder))}
        return {**found, "differences": differences(expected, folder)}

    return case


def cut_for_long(place):
    """A cable stays out for longer than the limit; then the same command is given again."""
    expected, folder = undisturbed(place), place / "cut-for-long"
    with Network(2) as network:
        team = both(network, LINE, folder, **SHORT_LIMIT)
        wait_for_steps(folder, 100, team[0])
        network.pull(1)
        pulled = time.monotonic()
        codes = [process.wait() for process in team]
        seconds, at = time.monotonic() - pulled, steps(folder)
        network.plug(1)
        codes += [process.wait() for process in both(network, LINE, folder)]
    found = {"codes": codes, "ended after seconds": round(seconds, 1), "at step": at}
    return {**found, "differences": differences(expected, folder)}


def elastic_hosts(victim):
    """A case: this host dies, the other goes on alone, and it comes back."""

    def case(place):
        expected, folder = undisturbed(place), place / f"elastic-{victim}"
        line = [*TINY, "--steps", "1000"]  # saves after every step: alone it would be done too soon
        with Network(2) as network:

            def start(host):
                return torchrun(network, host, elastic(network, host, 1 - victim), line, folder)

            agents = {host: start(host) for host in (1 - victim, victim)}
            wait_for_steps(folder, 100, agents[1 - victim])
            network.kill(victim)
            agents[victim].wait()
            died_at = steps(folder)
            wait_for_steps(folder, died_at + 100, agents[1 - victim])
            agents[victim] = start(victim)
            codes = [agents[host].wait() for host in range(2)]
        found = {"codes": codes, "processes": processes_of_starts(folder)}
        off = farthest(expected, folder)
        found |= {"died at step": died_at, "farthest relative difference of a loss": off}
        return {**found, "differences": ["steps"] if steps(folder) != steps(expected) else []}

    return case


def farthest(one, other):
    """How far the losses of two runs are apart."""
    both = [
        [json.loads(line)["loss"] for line in (folder / "run" / "metrics.jsonl").open()]
        for folder in (one, other)
    ]
    return max(abs(a - b) / abs(a) for a, b in zip(*both, strict=True))


def ray_loses(place):
    """Runs on Ray; the cables of all three nodes lose packets."""
    here, there = place / "ray-here", place / "ray-there"
    rda = [sys.executable, "-m", "rda", *ON_RAY]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    alone = [*rda, "--threads", "1", "--runs-dir", str(here)]
    codes = [subprocess.run(alone, env=environment, capture_output=True).returncode]
    with Cluster(place / "cluster", nodes=3, cpus_of_head=0) as cluster:
        for node in range(3):
            cluster.lose(node, 0.01)
        line = [*rda, "--runs-dir", str(there), "--on", cluster.on]
        codes.append(subprocess.run(line, env=cluster.environment, capture_output=True).returncode)
        lost = sum(cluster.lost(node) for node in range(3))
    return {"codes": codes, "lost": lost, "differences": differences(here, there)}


CASES = {
    "loss-1": loses(0.01),
    "loss-10": loses(0.10),
    "cut": cut("cut"),
    "cut-for-long": cut_for_long,
    "cut-with-restarts": cut("cut-with-restarts", "--max-restarts", "3", **SHORT_LIMIT),
    "elastic": elastic_hosts(1),
    "elastic-leader": elastic_hosts(0),
    "ray-loss-1": ray_loses,
}

if __name__ == "__main__":
    main()
