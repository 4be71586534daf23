#!/usr/bin/env python3
"""The merge against the machine's memory bandwidth and against PyTorch.

    cmake --build build/release --target bench_merge
    python3 -m venv build/pytorch && build/pytorch/bin/pip install torch numpy
    build/pytorch/bin/python benchmarks/merge/merge.py build/release/benchmarks/merge/bench_merge

Ours, PyTorch's and a plain read of the learners' data take turns, so that all see the same machine. One
row for each number of learners M, of fragments of 64 MiB in tensors of 768 x 3072 elements; the medians
over the turns of

    GB/s        learners' bytes merged a second, with the norms that the syncer took as they arrived
    passes      what has to be moved, over the learners' bytes: the learners' once, Theta twice, the mean
                direction written and read (its length is known only at the tensor's end), the old momentum
                read, the new momentum and Theta written: M + 7 fragments for M. Memory moves more: a line
                that is written is read first
    share       GB/s of what that many passes at the bandwidth of the read would give
    arrival     bytes a second of one learner's fragment as it arrives, on one thread: its checksum is
                checked and its norms from Theta are taken, in one pass over it and one over Theta
    / PyTorch   ours over PyTorch's, which takes the norms too, so ours with the norms taken in the merge
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

MEBIBYTES = 64
PIECE = 768 * 3072


class Player:
    def __init__(self, command, clock):
        self.clock = clock
        # A thread that waits for a core counts no processor time.
        environment = dict(os.environ, OMP_WAIT_POLICY="passive")
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def seconds(self, order):
        print(order, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.process.args} ended")
        return float(answer.split()[self.clock])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def passes(learners):
    return (learners + 7) / learners


def measure(program, learners, threads, turns, clock):
    arguments = [learners, MEBIBYTES, PIECE, threads]
    ours = Player([program, *arguments], clock)
    torch = Player([sys.executable, pathlib.Path(__file__).with_name("torch_merge.py"), *arguments], clock)
    size = learners * MEBIBYTES * 2**20
    rates = {"ours": [], "share": [], "arrival": [], "pytorch": [], "read": []}
    for player in (ours, torch):
        player.seconds("merge 1")
    for _ in range(turns):
        read = ours.seconds("read 2")
        merged = ours.seconds("merge 2")
        again = ours.seconds("read 2")
        arrived = ours.seconds("arrive 2")
        whole = ours.seconds("whole 1")
        theirs = torch.seconds("merge 1")
        bandwidth = size / min(read, again)
        rates["read"].append(bandwidth)
        rates["ours"].append(size / merged)
        rates["share"].append(size / merged * passes(learners) / bandwidth)
        rates["arrival"].append(size / learners / arrived)
        rates["pytorch"].append(theirs / whole)
    ours.close()
    torch.close()
    return {name: statistics.median(values) for name, values in rates.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="bench_merge")
    parser.add_argument("--learners", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall")
    options = parser.parse_args()
    print(f"{'M':>3} {'GB/s':>7} {'read GB/s':>10} {'passes':>7} {'share':>7} {'arrival':>8} {'/ PyTorch':>10}")
    for learners in options.learners:
        rates = measure(
            options.program, learners, options.threads, options.turns, ["wall", "processor"].index(options.clock)
        )
        print(
            f"{learners:>3} {rates['ours'] / 1e9:>7.2f} {rates['read'] / 1e9:>10.2f} {passes(learners):>7.2f}"
            f" {rates['share']:>7.1%} {rates['arrival'] / 1e9:>8.2f} {rates['pytorch']:>10.2f}"
        )


if __name__ == "__main__":
    main()
