#!/usr/bin/env python3
"""A training step (forward, backward, clipping, AdamW) of ours against PyTorch's, eager and compiled.

    cmake --build build/release --target bench_step
    python3 -m venv build/pytorch && build/pytorch/bin/pip install torch numpy
    build/pytorch/bin/python benchmarks/step/step.py build/release/benchmarks/step/bench_step

With --llmc FOLDER, where train_gpt2.c of github.com/karpathy/llm.c and its llmc/ lie, that trainer takes
part too, built by its own Makefile's flags.

They run as processes that take turns, so that all see the same machine. Printed: the median tokens
a second over the turns, the median over turns of ours divided by the better of PyTorch's two, the share of
the machine's peak (a 2048 x 2048 matrix product by our library in the same turn) and the peak memory that
model and steps add to the process.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from operator import truediv

SHAPES = {  # layers width heads context vocabulary batch
    "small": (4, 128, 4, 128, 256, 16),
    "larger": (6, 384, 6, 256, 256, 8),
}
TORCH_STEP = pathlib.Path(__file__).with_name("torch_step.py")
LLMC_STEP = pathlib.Path(__file__).with_name("llmc_step.c")


class Player:
    def __init__(self, command, clock, **environment):
        self.clock = clock
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )

    def ask(self, order):
        print(order, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.process.args} ended")
        return [float(number) for number in answer.split()]

    def seconds(self, order):
        return self.ask(order)[self.clock]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def model_flops(layers, width, heads, context, vocabulary, batch):
    """Of forward and backward: 6 a weight and token, and attention's two products where a query sees."""
    weights = 12 * layers * width * width + vocabulary * width
    attention = 6 * layers * width * (context + 1)
    return batch * context * (6 * weights + attention)


def build_llmc(folder, out):
    flags = ["-Ofast", "-march=native", "-fopenmp", "-DOMP", "-DTESTING", "-w"]
    subprocess.run(["gcc", *flags, f"-I{folder}", LLMC_STEP, "-lm", "-o", out], check=True)


def measure(program, llmc, name, threads, turns, turn_seconds, clock):
    shape = SHAPES[name]
    tokens = shape[3] * shape[5]
    arguments = [*shape, threads]
    torch = [sys.executable, TORCH_STEP]
    players = {
        "ours": Player([program, *arguments], clock),
        "eager": Player([*torch, "eager", *arguments], clock),
        "compiled": Player([*torch, "compiled", *arguments], clock),
    }
    if llmc:
        players["llm.c"] = Player([llmc, *shape], clock, OMP_NUM_THREADS=str(threads))
    steps = {}
    for key, player in players.items():
        player.ask(2)
        steps[key] = max(1, round(turn_seconds / player.seconds(1)))
    memory = {key: player.ask("memory")[0] / 2**20 for key, player in players.items()}
    rates = {key: [] for key in players}
    peaks = []
    for _ in range(turns):
        for key, player in players.items():
            rates[key].append(steps[key] * tokens / player.seconds(steps[key]))
        peaks.append(2 * 2048**3 / players["ours"].seconds("product"))
    torch_rates = map(max, zip(rates["eager"], rates["compiled"]))
    ratios = [ours / torch for ours, torch in zip(rates["ours"], torch_rates)]
    flops = model_flops(*shape) / tokens
    shares = [rate * flops / peak for rate, peak in zip(rates["ours"], peaks)]
    for player in players.values():
        player.close()
    middle = statistics.median
    print(
        f"| {name} | {threads} | "
        + " | ".join(f"{middle(rates[key]):.0f}" for key in players)
        + f" | {middle(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        + f" | {100 * middle(shares):.0f} % of {middle(peaks) / 1e9:.0f} GFLOP/s | "
        + " | ".join(f"{memory[key]:.0f}" for key in players)
        + (f" | {middle(map(truediv, rates['ours'], rates['llm.c'])):.2f} |" if llmc else " |"),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built bench_step")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--turn-seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--llmc", help="llm.c's folder")
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="seconds of processor time: for one thread on a machine that others use too",
    )
    arguments = parser.parse_args()
    extra = ["llm.c"] if arguments.llmc else []
    names = ["ours tokens/s", "PyTorch eager", "compiled", *extra]
    print("| model | threads | " + " | ".join(names) + " | ratio to PyTorch's better | share of peak | "
          + " | ".join(["ours MiB", "eager", "compiled", *extra])
          + (" | ratio to llm.c |" if extra else " |"))  # fmt: skip
    print("|" + "---|" * (8 + 3 * len(extra) + 2))
    with tempfile.TemporaryDirectory() as scratch:
        llmc = pathlib.Path(scratch) / "llmc_step" if extra else None
        if llmc:
            build_llmc(arguments.llmc, llmc)
        for name in arguments.shapes:
            for threads in arguments.threads:
                measure(arguments.program, llmc, name, threads, arguments.turns,
                        arguments.turn_seconds, int(arguments.processor_time))  # fmt: skip


if __name__ == "__main__":
    main()
