"""Hosts on one machine: network namespaces with addresses of their own, joined by a switch.

All traffic between hosts goes through the switch, a bridge. A host's cable can be pulled, and can
lose packets. What hosts share is the disk. Needs root, and a kernel that allows namespaces; to lose
packets, the command nft as well.
"""

import contextlib
import os
import re
import signal
import subprocess
import time


def why_not(losing=False):
    """Why there can be no such hosts here, or with `losing` none that lose packets; or None."""
    try:
        with Network(1) as tried:
            if losing:
                tried.lose(0, 0.5)
    except OSError as error:
        return f"there is no command {error.filename} ({error.strerror})"
    except NetworkError as error:
        return f"networks of our own are not allowed here ({error})"
    return None


class NetworkError(Exception):
    """A command of the system has failed; the message says which, and why."""


class Network:
    """Hosts 0, 1, ... A context that leaves nothing behind."""

    def __init__(self, hosts):
        self.size = hosts
        self.tag = f"rda{os.getpid() % 100000}"
        self._losing = set()
        self.subnet = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"

    def __enter__(self):
        try:
            run(f"ip link add {self.tag} type bridge")
            run(f"ip addr add {self.subnet}.1/24 dev {self.tag}")
            run(f"ip link set {self.tag} up")
            for host in range(self.size):
                self._connect(host)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error):
        for host in range(self.size):
            self.kill(host)
            self.lose(host, 0.0)
            # Not left to the end of the namespace, which the kernel takes its time for.
            subprocess.run(["ip", "link", "del", self._at_switch(host)], capture_output=True)
            subprocess.run(["ip", "netns", "del", self.namespace(host)], capture_output=True)
        subprocess.run(["ip", "link", "del", self.tag], capture_output=True)

    def address(self, host):
        return f"{self.subnet}.{host + 2}"

    def namespace(self, host):
        return f"{self.tag}-{host}"

    def interface(self, host):
        """The name of a host's only interface, as the host sees it."""
        return f"{self.tag}i{host}"

    def inside(self, host, line):
        """The line that runs a command on a host."""
        return ["ip", "netns", "exec", self.namespace(host), *map(str, line)]

    def processes(self, host):
        line = ["ip", "netns", "pids", self.namespace(host)]
        return [int(one) for one in subprocess.run(line, capture_output=True).stdout.split()]

    def kill(self, host):
        """As if the machine had lost its power: every process of the host ends at once."""
        for _ in range(50):
            found = self.processes(host)
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not found:
                break
            time.sleep(0.05)

    def pull(self, host):
        """Pull the cable of a host."""
        run(f"ip link set {self._at_switch(host)} down")

    def plug(self, host):
        """Plug it in again."""
        run(f"ip link set {self._at_switch(host)} up")

    def lose(self, host, share):
        """Lose this share of the packets to a host, and as many of those from it."""
        for where, device in self._ends(host):
            if host in self._losing:
                run([*where, "nft", "delete", "table", "netdev", device])
            if share:
                hook = f"type filter hook ingress device {device} priority 0;"
                rule = f"numgen random mod 10000 < {round(10000 * share)} counter drop;"
                table = f"table netdev {device} {{ chain losing {{ {hook} {rule} }}; }}"
                run([*where, "nft", table])
        self._losing = self._losing - {host} | ({host} if share else set())

    def lost(self, host):
        """How many packets of a host were lost since the last call of `lose`."""
        said = [
            run([*where, "nft", "list", "table", "netdev", device])
            for where, device in self._ends(host)
        ]
        return sum(int(found) for found in re.findall(r"packets (\d+)", "".join(said)))

    def _ends(self, host):
        """Both ends of a host's cable: packets are lost where they arrive."""
        return ([], self._at_switch(host)), (self.inside(host, []), self.interface(host))

    def _at_switch(self, host):
        return f"{self.tag}v{host}"

    def _connect(self, host):
        name, outer, inner = self.namespace(host), self._at_switch(host), self.interface(host)
        run(f"ip netns add {name}")
        run(f"ip link add {outer} type veth peer name {inner}")
        run(f"ip link set {inner} netns {name}")
        run(f"ip link set {outer} master {self.tag} up")
        run(f"ip -n {name} addr add {self.address(host)}/24 dev {inner}")
        run(f"ip -n {name} link set {inner} up")
        run(f"ip -n {name} link set lo up")
        # Packets as on a wire. Otherwise one packet between namespaces has up to 64 kilobytes, and
        # a hundredth of them would be far less than a hundredth of those that a wire has.
        run(f"ip link set {outer} gso_max_segs 1")
        run(f"ip -n {name} link set {inner} gso_max_segs 1")


def run(line):
    """What a command of the system printed; its words in a list where they are not plain."""
    words = line.split() if isinstance(line, str) else line
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise NetworkError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
