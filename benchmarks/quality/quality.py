#!/usr/bin/env python3
"""Decoupled training against data-parallel training of the same model on the same tokens.

    benchmarks/quality/quality.py build/release/archipelago inputs/data/kjv.h5 [inputs/data/fashion.h5]

Three learners of one batch each against one model trained in step on the three batches together, for as many
steps. Each method has its own inner learning rate, those with an outer step their own outer momentum: all of
--rates and --momenta are tried with the first seed, the best is run with the others. Everything else is the
same. Prints a row for each model, method and setting: the final validation losses (nats a byte for text), for
images their accuracies too.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import tempfile

COMMON = {
    "train.warmup": 100,
    "train.min_lr": 0,
    "sync.learners": 3,
    "sync.quorum": 3,
    "sync.spares": 0,
    "sync.refill": "false",
    "sync.overlap": 6,
    "checkpoint.learner_steps": 1000000,
    "checkpoint.global_rounds": 1000000,
}
TEXT = {"model.layers": 2, "model.width": 64, "model.heads": 4, "model.context": 64, "train.batch": 8,
        "train.validation": 131072}
TASKS = {
    "gpt": {**TEXT},
    "moe": {**TEXT, "model.kind": "moe"},
    "vit": {"model.kind": "vit", "model.layers": 2, "model.width": 64, "model.heads": 4, "model.patch": 7,
            "train.batch": 32, "train.weight_decay": 0.05, "train.validation": 0},
}
METHODS = ["data-parallel", "decoupled"]


def run(program, options):
    with tempfile.TemporaryDirectory(prefix="archipelago-quality-") as folder:
        out = pathlib.Path(folder) / "run"
        words = [f"--{name}={value}" for name, value in {**options, "out": out}.items()]
        subprocess.run([program, "launch", "--", *words], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return json.loads((out / "summary.json").read_text())


def print_row(task, method, setting, runs):
    losses = [summary["final_val_loss"] for summary in runs]
    accuracies = [summary.get("final_val_accuracy") for summary in runs]
    rate, momentum = setting
    shown = ", ".join(f"{loss:.4f}" for loss in losses)
    accuracy = "" if accuracies[0] is None else f"{statistics.mean(accuracies):.2%}"
    print(f"| {task} | {method} | {rate} | {'' if momentum is None else momentum} | {shown}"
          f" | {statistics.mean(losses):.4f} | {accuracy} |", flush=True)


def compare(arguments, task, changed):
    data = arguments.images if task == "vit" else arguments.text

    def train(method, setting, seed):
        rate, momentum = setting
        outer = {} if momentum is None else {"sync.outer_momentum": momentum}
        return run(arguments.program, {
            **COMMON, **TASKS[task], **outer, **changed, "data.path": data, "method": method,
            "train.steps": arguments.steps, "train.lr": rate, "train.seed": seed})

    for method in arguments.methods:
        momenta = [None] if method == "data-parallel" else arguments.momenta
        first = {setting: train(method, setting, arguments.seeds[0])
                 for setting in itertools.product(arguments.rates, momenta)}
        best = min(first, key=lambda setting: first[setting]["final_val_loss"])
        for setting, summary in first.items():
            if setting != best:
                print_row(task, method, setting, [summary])
        others = [train(method, best, seed) for seed in arguments.seeds[1:]]
        print_row(task, method, best, [first[best], *others])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("text")
    parser.add_argument("images", nargs="?")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--rates", nargs="+", type=float, default=[0.004, 0.008, 0.012])
    parser.add_argument("--momenta", nargs="+", type=float, default=[0.5, 0.75, 0.9])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--set", nargs="*", default=[], metavar="OPTION=VALUE", help="other options of the runs")
    arguments = parser.parse_args()
    if "vit" in arguments.tasks and not arguments.images:
        parser.error("the image model needs a file of images (scripts/images)")
    changed = dict(word.split("=", 1) for word in arguments.set)

    print("| model | method | rate | outer momentum | validation loss, a seed each | mean | accuracy |")
    print("|---|---|---|---|---|---|---|")
    for task in arguments.tasks:
        compare(arguments, task, changed)


if __name__ == "__main__":
    main()
