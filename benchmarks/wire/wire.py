#!/usr/bin/env python3
"""What the wire encodings cost in loss and save in bytes: the same small runs with each, seed by seed.

    benchmarks/wire/wire.py build/release/archipelago inputs/data/kjv.h5

Every run waits for all learners in every round, so that runs differ by their encodings and not by which
learner was late. Prints, for each pair of encodings (what learners send / what they receive), the final
validation loss of each seed against the first pair's with the same seed, and bytes up and down a token,
of all learners together, and against what data-parallel training would move over the same links: each learner
sends and receives 2 (1 - 1/M) f32 gradients of the model each step (ring all-reduce).
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

OPTIONS = {
    "model.layers": 2,
    "model.width": 64,
    "model.heads": 4,
    "model.context": 64,
    "train.batch": 8,
    "train.steps": 1000,
    "train.warmup": 60,
    "train.validation": 131072,
    "sync.learners": 3,
    "sync.quorum": 3,
    "sync.spares": 0,
    "sync.refill": "false",
    "sync.interval": 24,
    "sync.fragments": 24,
    "sync.overlap": 6,
    "checkpoint.learner_steps": 1000000,
    "checkpoint.global_rounds": 1000000,
}


def run(program, data, seed, up, down, changed):
    with tempfile.TemporaryDirectory(prefix="archipelago-wire-") as folder:
        out = pathlib.Path(folder) / "run"
        options = {**OPTIONS, **changed, "data.path": data, "out": out, "train.seed": seed,
                   "wire.up": up, "wire.down": down}
        subprocess.run([program, "launch", "--", *(f"--{name}={value}" for name, value in options.items())],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        summary = json.loads((out / "summary.json").read_text())
        checkpoint = sorted((out / "checkpoints").glob("global-*.h5"))[-1]
        shown = json.loads(subprocess.run([program, "inspect", checkpoint, "--json"], check=True,
                                          capture_output=True, text=True).stdout)
        summary["parameters"] = parameters_of(shown)
        summary["steps"] = summary["tokens"] / (int(options["train.batch"]) * int(options["model.context"]))
        return summary


def parameters_of(shown):
    total = 0
    for dataset in shown["datasets"]:
        if dataset["path"].startswith("/params/"):
            total += math.prod(dataset["shape"])
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--pairs", nargs="+", default=["f32/f32", "bf16/bf16", "int8/bf16", "e3m0/bf16"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", nargs="*", default=[], metavar="OPTION=VALUE", help="other options of the runs")
    arguments = parser.parse_args()
    changed = dict(word.split("=", 1) for word in arguments.set)
    learners = int({**OPTIONS, **changed}["sync.learners"])

    seeds = " | ".join(f"seed {seed}" for seed in arguments.seeds)
    print(f"| up / down | {seeds} | mean change | bytes up a token | bytes down a token | of data-parallel's |")
    print("|---|" + "---|" * (len(arguments.seeds) + 4))
    first = None
    for pair in arguments.pairs:
        up, down = pair.split("/")
        runs = [run(arguments.program, arguments.data, seed, up, down, changed) for seed in arguments.seeds]
        first = first or runs
        changes = [a["final_val_loss"] / b["final_val_loss"] - 1 for a, b in zip(runs, first)]
        losses = " | ".join(f"{a['final_val_loss']:.4f} ({change:+.2%})" for a, change in zip(runs, changes))

        up_bytes, down_bytes = (statistics.mean(a[name] / a["tokens"] for a in runs)
                                for name in ("bytes_up", "bytes_down"))
        parallel = 2 * 2 * (1 - 1 / learners) * 4 * runs[0]["parameters"] * statistics.mean(
            a["steps"] / a["tokens"] for a in runs)
        print(f"| {pair} | {losses} | {statistics.mean(changes):+.2%}"
              f" | {up_bytes:.1f} | {down_bytes:.1f} | 1/{parallel / (up_bytes + down_bytes):.0f} |", flush=True)


if __name__ == "__main__":
    main()
