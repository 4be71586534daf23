#!/usr/bin/env python3
"""The exchange between a leader and the syncer against raw MPI_Put with flush on the same path.

    cmake --build build/release --target bench_transport
    python3 benchmarks/transport/transport.py build/release/benchmarks/transport/bench_transport MPIRUN

For each path (shared memory, loopback TCP, as root also two hosts in network namespaces) a table of
fragment sizes: GB/s of raw puts, GB/s of fragments (header, data, flag, read by the syncer's loop and
acknowledged; their checksums are taken and checked where they are encoded and read, not on the way), and
the latter as a share of the former; medians over turns that alternate within one job. Raw puts go to the
fragments' own memory. On one host MPI puts windows into shared memory whatever else it uses; loopback
TCP then carries only what comes down.
"""

import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "hosts"))
import hosts as network  # noqa: E402

KIBIBYTES = [64, 256, 1024, 4096, 16384, 65536, 262144]
FLAGS = ["--with-ft", "ulfm", "--bind-to", "none", "--mca", "osc", "rdma", "--mca", "pml", "ob1",
         "--mca", "btl_tcp_flags", "send", "-n", "2"]
PATHS = {"shared memory": ["--oversubscribe", "--mca", "btl", "sm,tcp,self"],
         "loopback TCP": ["--oversubscribe", "--mca", "btl", "tcp,self", "--mca",
                          "btl_tcp_if_include", "lo"],
         "two hosts": ["--host", "h1:1,h2:1", "--map-by", "node", "--mca", "btl", "sm,tcp,self"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("mpirun", type=pathlib.Path)
    parser.add_argument("--paths", nargs="+", default=list(PATHS), choices=list(PATHS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--mebibytes", type=int, default=512, help="a turn")
    arguments = parser.parse_args()
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = dict(os.environ, **root)
    for path in arguments.paths:
        command = [arguments.mpirun.absolute(), *FLAGS, *PATHS[path], arguments.program.resolve(),
                   arguments.turns, arguments.mebibytes, *KIBIBYTES]
        if path == "two hosts":
            try:
                hosts = network.Hosts(2)
            except network.Unavailable as problem:
                print(f"two hosts: not measured: {problem}")
                continue
            command = hosts.on("h1", command)
            environment = dict(hosts.environment(), **root)
        done = subprocess.run([str(word) for word in command], env=environment, text=True,
                              capture_output=True)
        print(f"{path}\n{'KiB':>8} {'raw GB/s':>9} {'GB/s':>7} {'share':>7}")
        for line in done.stdout.splitlines():
            size, raw, ours, share = line.split()
            print(f"{size:>8} {float(raw) / 1e9:>9.3f} {float(ours) / 1e9:>7.3f} {float(share):>7.1%}",
                  flush=True)
        if done.returncode != 0:
            sys.exit(done.stderr)


if __name__ == "__main__":
    main()
