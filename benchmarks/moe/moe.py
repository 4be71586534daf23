#!/usr/bin/env python3
"""A mixture of experts against the dense model of the same active parameters, on the same tokens.

    scripts/build && scripts/corpus
    benchmarks/moe/moe.py build/release/archipelago --data inputs/data/kjv.h5

Each model is trained by `launch`, once a seed, with the same options but for the feed-forward halves: the dense one
is four times as wide inside as the model; the mixture chooses two experts of half that width for each token, of as
many as --experts says. One learner without an outer step (--method data-parallel): the models are compared, not how
they are merged. The loss of models as small as these first stands still at that of byte pairs, about 2.3, and leaves
it at a step that differs from seed to seed; the defaults train several times as long as that takes.

Printed: parameters, those active for a token, and the loss on the whole validation part, for each seed.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def options(arguments, kind):
    chosen = {
        "model.kind": kind,
        "model.layers": arguments.layers,
        "model.width": arguments.width,
        "model.expert_width": 2 * arguments.width,
        "model.experts": arguments.experts,
        "model.experts_per_token": 2,
        "data.path": arguments.data,
        "train.batch": arguments.batch,
        "train.steps": arguments.steps,
        "train.warmup": 60,
        "train.threads": arguments.threads,
        "train.validation": 0,
        "method": "data-parallel",
        "sync.learners": 1,
    }
    return [f"--{name}={value}" for name, value in chosen.items()]


def parameters(arguments, kind):
    told = subprocess.run([arguments.program, "train", "--dry-run", *options(arguments, kind)],
                          check=True, capture_output=True, text=True).stdout
    every = re.search(r"parameters ([\d,]*\d)", told)[1]
    active = re.search(r"active a token ([\d,]*\d)", told)
    return every, active[1] if active else every


def train(arguments, kind, seed):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        done = subprocess.run(
            [arguments.program, "launch", "--", *options(arguments, kind), f"--train.seed={seed}",
             f"--out={out}"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads((out / "summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built archipelago")
    parser.add_argument("--data", required=True, help="token file")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    arguments = parser.parse_args()
    print("| model | parameters | active | tokens | validation loss, a seed each | mean |")
    print("|---|---|---|---|---|---|")
    for kind in ("gpt", "moe"):
        every, active = parameters(arguments, kind)
        runs = [train(arguments, kind, seed) for seed in arguments.seeds]
        losses = [run["final_val_loss"] for run in runs]
        print(f"| {kind} | {every} | {active} | {runs[0]['tokens']} | "
              + ", ".join(f"{loss:.4f}" for loss in losses)
              + f" | {sum(losses) / len(losses):.4f} |", flush=True)


if __name__ == "__main__":
    main()
