#!/usr/bin/env python3
"""Long runs with a random death every few seconds, against the same tokens without any.

    benchmarks/failures/chaos.py build/release/archipelago inputs/data/kjv.h5 [--seeds 1 2 3 4 5]

For each seed: four learners of a small model, so that steps are short beside the time between two deaths; some
learner is killed (kill -9) every --every seconds on average, at exponential times of the seed; then the same run
without deaths. --cores C1 C2 ...: so many runs at the same time, each on the one core given (all its processes
share it), else one after the other on all. Printed for each seed: exit code, duration, deaths, rejoins, goodput (useful tokens over what the learners alive at each
moment could have trained at the run's own speed), validation loss with and without, their difference.
"""

import argparse
import concurrent.futures
import json
import pathlib
import queue
import subprocess
import tempfile

MODEL = ["--model.layers=2", "--model.width=64", "--model.heads=2", "--model.context=64",
         "--train.batch=16", "--train.warmup=60", "--sync.overlap=6", "--sync.grace=0.9",
         "--checkpoint.global_rounds=100"]


def train(arguments, options, seed, with_deaths, cores):
    core = cores.get()
    out = pathlib.Path(arguments.out) / f"seed-{seed}-{'deaths' if with_deaths else 'none'}"
    plan = f"kill learner=any every={arguments.every} seed={seed}" if with_deaths else ""
    command = [arguments.program, "launch", "--", f"--data.path={arguments.data}", f"--out={out}",
               f"--train.steps={arguments.steps}", f"--train.seed={seed}", "--sync.learners=4",
               f"--sync.spares={4 if with_deaths else 0}",
               "--chaos", plan, *MODEL, *options]
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    done = subprocess.run(command, capture_output=True, text=True)
    cores.put(core)
    if not (out / "summary.json").exists():
        raise SystemExit(done.stderr)
    return done.returncode, json.loads((out / "summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--steps", type=int, default=4000, help="of each learner")
    parser.add_argument("--every", type=float, default=20, help="seconds between two deaths, on average")
    parser.add_argument("--cores", type=int, nargs="*", default=[])
    parser.add_argument("--out", help="a folder that keeps the runs")
    arguments, options = parser.parse_known_args()
    kept = None if arguments.out else tempfile.TemporaryDirectory()
    arguments.out = arguments.out or kept.name
    cores = queue.Queue()
    for core in arguments.cores or [None]:
        cores.put(core)
    with concurrent.futures.ThreadPoolExecutor(max_workers=cores.qsize()) as pool:
        runs = {(seed, deaths): pool.submit(train, arguments, options, seed, deaths, cores)
                for seed in arguments.seeds for deaths in (True, False)}
    print("| seed | exit code | seconds | deaths | rejoins | goodput | loss | without deaths | difference |")
    print("|---|---|---|---|---|---|---|---|---|")
    for seed in arguments.seeds:
        code, summary = runs[seed, True].result()
        _, undisturbed = runs[seed, False].result()
        loss, other = summary["final_val_loss"], undisturbed["final_val_loss"]
        print(f"| {seed} | {code} | {summary['wall_s']:.0f} | {summary['losses']} | {summary['rejoins']} "
              f"| {100 * summary['goodput']:.1f} % | {loss:.4f} | {other:.4f} "
              f"| {100 * (loss / other - 1):+.2f} % |")


if __name__ == "__main__":
    main()
