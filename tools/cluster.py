"""Many runs on a cluster whose nodes are killed, beside the same runs in one process here.

python tools/cluster.py                   five units, four seeds, ten kills: 15 minutes on 2 cores
python tools/cluster.py --steps 60 --kills 3 --pause 10

Four Ray nodes stand on this machine, each in a network namespace of its own (needs root). Nodes
other than the head are killed with all their processes at random moments, and started again. At
the end the records must be the same, byte for byte, as those of `rda compare` without Ray. With
--head the head is killed too, and the same command is given once more.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "scale"))

from cluster import Cluster, why_not
from comparing_records import differences

SECONDS_DOWN = 5.0
FEWEST_SECONDS = 3.0


def main():
    asked = read_options()
    reason = why_not()
    if reason:
        sys.exit(f"this needs a cluster, which cannot be: {reason}")
    with tempfile.TemporaryDirectory(prefix="rda-cluster-") as place:
        folder = Path(asked.folder or place)
        here, there = folder / "here", folder / "there"
        line = ["compare", "multicopy", *asked.units, "--small", "--seeds", str(asked.seeds)]
        line += ["--steps", str(asked.steps)] if asked.steps else []
        line += ["--checkpoint-minutes", str(asked.checkpoint_minutes)]
        alone = timed(rda([*line, "--threads", "1", "--runs-dir", str(here)]))
        with Cluster(folder / "cluster") as cluster:
            options = ["--runs-dir", str(there), "--on", cluster.on]
            started = time.monotonic()
            first = rda([*line, *options], cluster.environment)
            kills = kill_at_random(cluster, first, asked, random.Random(asked.seed))
            codes = [first.wait()]
            if asked.head:
                codes.append(rda([*line, *options], cluster.environment).wait())
            together = time.monotonic() - started
        found = differences(here, there)
        starts = count_starts(there)
    print(json.dumps({"kills": kills, "exit codes": codes, "starts": starts,
                      "seconds here": round(alone), "seconds on the cluster": round(together),
                      "differences": found}, indent=1))  # fmt: skip
    sys.exit(bool(found) or codes[-1])


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("units", nargs="*", help="units of rda compare; by default its five")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=0, help="a limit of steps for each run")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pause", type=float, default=40.0, help="most seconds between two kills")
    parser.add_argument("--head", action="store_true", help="kill and restart the head at the end")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and nodes")
    parser.add_argument("--checkpoint-minutes", type=float, default=0.2)
    parser.add_argument("--folder", help="keep the runs here; those that are finished are kept")
    return parser.parse_args()


def rda(line, environment=None):
    return subprocess.Popen([sys.executable, "-m", "rda", *line], env=environment)


def timed(process):
    started = time.monotonic()
    process.wait()
    return time.monotonic() - started


def kill_at_random(cluster, command, asked, rng):
    """How many nodes were killed while the command was at work."""
    killed = 0
    while killed < asked.kills and waits(command, rng.uniform(FEWEST_SECONDS, asked.pause)):
        node = rng.randrange(1, cluster.size)
        print(f"killing node {node}", flush=True)
        cluster.kill(node)
        killed += 1
        waits(command, rng.uniform(0, SECONDS_DOWN))
        cluster.start(node)
    if asked.head and waits(command, asked.pause):
        print("killing the head", flush=True)
        cluster.kill(0)
        print(f"the command ends {timed(command):.0f} seconds later", flush=True)
        for node in range(cluster.size):
            cluster.kill(node)
            cluster.start(node)
        cluster.wait_for(cluster.size)
        killed += 1
    return killed


def waits(command, seconds):
    """Whether the command still works after this time."""
    try:
        command.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def count_starts(folder):
    """How often each run was started, in the order of names."""
    return [len(json.loads(path.read_text())) for path in sorted(folder.glob("*/environment.json"))]


if __name__ == "__main__":
    main()
