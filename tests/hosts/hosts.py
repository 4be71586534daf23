#!/usr/bin/env python3
"""Several hosts on one machine: network namespaces behind a bridge, each with its own name, address and
link, whose rate and delay are the kernel's own (tc tbf, netem), not simulated. Needs root.

    hosts.py [--rate 100mbit] [--delay 10ms] N -- COMMAND...

runs COMMAND on the first of the hosts h1 ... hN; mpirun and `archipelago launch --hosts h1,h2,...` start
processes on the others through the script `agent` beside this file. All that is made here belongs to this
process's own network and mount namespaces and goes with it.
"""

import argparse
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

AGENT = pathlib.Path(__file__).resolve().with_name("agent")
NETWORK = "10.77.0"
SWITCH = f"{NETWORK}.254"  # this process's own address among the hosts
TOOLS = ("ip", "tc", "unshare", "mount", "hostname")

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000


class Unavailable(Exception):
    """What this machine lacks."""


def run(*command, quiet=False):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0 and not quiet:
        raise Unavailable(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


def unshare():
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise Unavailable(f"not installed: {', '.join(missing)}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        raise Unavailable(f"cannot make a network namespace: {os.strerror(ctypes.get_errno())}")


class Hosts:
    """The hosts h1 ... h<count>. This process becomes the switch between them."""

    def __init__(self, count):
        unshare()
        self.names = [f"h{i}" for i in range(1, count + 1)]
        run("mount", "--make-rprivate", "/")
        os.makedirs("/run/netns", exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
            file.write("127.0.0.1 localhost\n" + "".join(
                f"{NETWORK}.{i} {name}\n" for i, name in enumerate(self.names, 1)))
            file.flush()
            run("mount", "--bind", file.name, "/etc/hosts")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "addr", "add", f"{SWITCH}/24", "dev", "switch")
        run("ip", "link", "set", "switch", "up")
        for i, name in enumerate(self.names, 1):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"to-{name}", "master", "switch", "up")
            run("ip", "-n", name, "addr", "add", f"{NETWORK}.{i}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", name, "link", "set", device, "up")

    def limit(self, name, rate=None, delay=None):
        """Gives the host's link this rate (of tc, e.g. 100mbit) and delay in both directions; None:
        none. Raises Unavailable where the kernel has no such queue."""
        for place in (["ip", "netns", "exec", name, "tc"], "eth0"), (["tc"], f"to-{name}"):
            tc, device = place
            run(*tc, "qdisc", "del", "dev", device, "root", quiet=True)
            if rate is not None:
                run(*tc, "qdisc", "add", "dev", device, "root", "handle", "1:", "tbf", "rate", rate,
                    "burst", "64kb", "latency", "50ms")
            if delay is not None:
                parent = ["root"] if rate is None else ["parent", "1:"]
                run(*tc, "qdisc", "add", "dev", device, *parent, "netem", "delay", delay)

    def cut(self, name):
        """Takes the host's link down without a word to anybody."""
        run("ip", "link", "set", f"to-{name}", "down")

    def mend(self, name):
        run("ip", "link", "set", f"to-{name}", "up")

    def processes(self, name):
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def lose(self, name):
        """The end of a host: its link is dead first, so that no process can say goodbye."""
        self.cut(name)
        while pids := self.processes(name):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    @staticmethod
    def on(name, command):
        """The command that runs `command` on the host."""
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"',
                name, *map(str, command)]

    @staticmethod
    def environment():
        """What mpirun on one host needs to reach the others."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return dict(kept, PRTE_MCA_plm="ssh", PRTE_MCA_plm_ssh_agent=str(AGENT),
                    OMPI_MCA_btl_tcp_if_include="eth0")


def make_for_test(count):
    """The hosts of a test, which is skipped (exit code 77) where none can be made."""
    try:
        return Hosts(count)
    except Unavailable as problem:
        print(f"no hosts can be made here: {problem}")
        sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--rate")
    parser.add_argument("--delay")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    try:
        hosts = Hosts(arguments.count)
        for name in hosts.names:
            hosts.limit(name, arguments.rate, arguments.delay)
    except Unavailable as problem:
        sys.exit(f"hosts.py: {problem}")
    sys.exit(subprocess.run(hosts.on("h1", arguments.command), env=hosts.environment()).returncode)


if __name__ == "__main__":
    main()
