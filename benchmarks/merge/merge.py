#!/usr/bin/env python3
"""The merge against the machine's memory bandwidth and against PyTorch.

    cmake --build build/release --target bench_merge
    python3 -m venv build/pytorch && build/pytorch/bin/pip install torch numpy
    build/pytorch/bin/python benchmarks/merge/merge.py build/release/benchmarks/merge/bench_merge

Ours, PyTorch's and a plain read of the learners' data take turns, so that all see the same machine. One
row for each number of learners M, of fragments of 64 MiB in tensors of 768 x 3072 elements; the medians
over the turns of

    GB/s        learners' bytes merged a second
    of two      that, as a share of what two passes over them at the bandwidth of the read would give:
    passes      radial-directional averaging needs the norms of all before it can add any
    traffic     all that has to be moved (learners and Theta twice, momentum once; momentum and Theta
                written), as a share of the same bandwidth
    / PyTorch   ours over PyTorch's
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

MEBIBYTES = 64
PIECE = 768 * 3072


class Player:
    def __init__(self, command, clock):
        self.clock = clock
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def measure(program, learners, threads, turns, clock):
    arguments = [learners, MEBIBYTES, PIECE, threads]
    ours = Player([program, *arguments], clock)
    torch = Player([sys.executable, pathlib.Path(__file__).with_name("torch_merge.py"), *arguments], clock)
    size = learners * MEBIBYTES * 2**20
    rates = {"ours": [], "two passes": [], "traffic": [], "pytorch": [], "read": []}
    for player in (ours, torch):
        player.seconds("merge 1")
    for _ in range(turns):
        read = ours.seconds("read 2")
        merged = ours.seconds("merge 2")
        again = ours.seconds("read 2")
        theirs = torch.seconds("merge 1")
        bandwidth = size / min(read, again)
        moved = size * (2 * learners + 5) / learners
        rates["read"].append(bandwidth)
        rates["ours"].append(size / merged)
        rates["two passes"].append(size / merged / (bandwidth / 2))
        rates["traffic"].append(moved / merged / bandwidth)
        rates["pytorch"].append(theirs / merged)
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
    print(f"{'M':>3} {'GB/s':>7} {'read GB/s':>10} {'of two passes':>14} {'traffic':>8} {'/ PyTorch':>10}")
    for learners in options.learners:
        rates = measure(
            options.program, learners, options.threads, options.turns, ["wall", "processor"].index(options.clock)
        )
        print(
            f"{learners:>3} {rates['ours'] / 1e9:>7.2f} {rates['read'] / 1e9:>10.2f}"
            f" {rates['two passes']:>14.1%} {rates['traffic']:>8.1%} {rates['pytorch']:>10.2f}"
        )


if __name__ == "__main__":
    main()
