#!/usr/bin/env python3
"""Models that this machine could not train, exchanged in full among learners with dummy gradients.

    cmake --build build/release --target bench_dummy_gradients
    benchmarks/exchange/exchange.py build/release/archipelago \\
        build/release/benchmarks/exchange/bench_dummy_gradients --model 124M --up e3m0 --down bf16

Four learners and the syncer as in a run; a learner's step changes every parameter by the same amount and
lasts --step seconds. Tells first what memory each part needs, and refuses where that is not free; then
what was resident, the bytes, the syncer's longest gap between two polls, and how unevenly the elements
of a fragment have moved in the end (0 when every element went up, was merged and came down alike).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODELS = {"124M": (12, 768, 12), "350M": (24, 1024, 16)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("benchmark")
    parser.add_argument("--model", choices=MODELS, default="124M")
    parser.add_argument("--learners", type=int, default=4)
    parser.add_argument("--up", default="f32")
    parser.add_argument("--down", default="f32")
    parser.add_argument("--step", type=float, default=1.0, help="seconds")
    parser.add_argument("--steps", type=int, default=48)
    arguments = parser.parse_args()
    layers, width, heads = MODELS[arguments.model]
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=shared) as scratch:
        options = {
            "out": pathlib.Path(folder) / "run", "data.path": "none", "model.layers": layers,
            "model.width": width, "model.heads": heads, "model.context": 1024, "model.vocabulary": 50257,
            "sync.learners": arguments.learners, "sync.spares": 0, "sync.refill": "false",
            "sync.outer_lr": 1, "sync.outer_momentum": 0, "sync.outlier": 0, "sync.suspect": 60,
            "sync.expel": 300, "train.batch": 1, "train.steps": arguments.steps,
            "checkpoint.global_rounds": 1000000, "wire.up": arguments.up, "wire.down": arguments.down,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        plan = json.loads(subprocess.run([arguments.program, "launch", "--print", "--json", "--", *words],
                                         check=True, capture_output=True, text=True).stdout)
        command = plan["command"]
        train = command.index("train")
        command[train - 1:train + 1] = [arguments.benchmark, str(arguments.step)]
        command = [scratch if before.endswith("_backing_directory") else word  # what launch would have made
                   for before, word in zip(["", *command], command)]
        sys.exit(subprocess.run(command, env={**os.environ, **plan["environment"]}).returncode)


if __name__ == "__main__":
    main()
