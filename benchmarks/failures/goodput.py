#!/usr/bin/env python3
"""What failures and stragglers cost decoupled and elastic data-parallel training: the same model, data, ranks and faults.

    benchmarks/failures/goodput.py build/release/archipelago inputs/data/kjv.h5 [--seeds 1 2] [train options ...]

Each method trains the same tokens three times a seed: without failures; with somebody killed (kill -9) --deaths
times, every --every seconds on average, at times of the seed, a sleeping spare taking each place; and with one
learner whose steps take --factor times as long, all the time. Plain data-parallel training stands beside them without
failures. Goodput is tokens a second as a share of the same method's and seed's without failures, where the
machine is as busy in all runs; "by its own steps" (summary.json's goodput) compares with the steps of the same run.
Printed in the end: each method's mean over the seeds, and the seconds that one death cost on average.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

MODEL = ["--model.layers=4", "--model.width=128", "--model.heads=4", "--model.context=64", "--train.batch=16",
         "--train.warmup=60", "--sync.overlap=6", "--sync.grace=0.9", "--sync.refill=false"]
METHODS = ("decoupled", "elastic-data-parallel")


def train(arguments, options, method, seed, plan, name):
    out = pathlib.Path(arguments.out) / f"{method}-{name}-{seed}"
    command = [arguments.program, "launch", "--restarts", "0", "--", f"--method={method}", f"--data.path={arguments.data}",
               f"--out={out}", f"--train.steps={arguments.steps}", f"--train.seed={seed}",
               f"--sync.learners={arguments.learners}", f"--sync.spares={arguments.deaths + 1}", *MODEL, *options]
    done = subprocess.run(command + (["--chaos", plan] if plan else []), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{out}: {done.stderr[-2000:]}")
    return json.loads((out / "summary.json").read_text())


def rate(summary):
    return summary["tokens"] / summary["wall_s"]


def compare(arguments, options, method, seed):
    """Figures of one method and seed: what the faults cost it against itself."""
    kills = f"kill learner=any every={arguments.every} count={arguments.deaths} seed={seed}"
    slow = f"slow learner=0 time=0 factor={arguments.factor} seconds=1000000"
    undisturbed = train(arguments, options, method, seed, "", "none")
    killed = train(arguments, options, method, seed, kills, "kills")
    slowed = train(arguments, options, method, seed, slow, "slow")
    deaths = killed["losses"]
    lost = killed["wall_s"] - killed["tokens"] / rate(undisturbed)
    row = {"tokens/s": rate(undisturbed), "deaths": deaths, "goodput, kills": rate(killed) / rate(undisturbed),
           "the same by its own steps": killed["goodput"], "lost s a death": lost / max(deaths, 1),
           "back after s": statistics.median(killed["rejoin_s"] or [0]),
           "goodput, one slow": rate(slowed) / rate(undisturbed),
           "loss": undisturbed["final_val_loss"], "loss, kills": killed["final_val_loss"],
           "loss, one slow": slowed["final_val_loss"]}
    print(f"{method}, seed {seed}: " + ", ".join(f"{key} {value:.4g}" for key, value in row.items()), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--learners", type=int, default=2)
    parser.add_argument("--deaths", type=int, default=8)
    parser.add_argument("--steps", type=int, default=300, help="of each learner")
    parser.add_argument("--every", type=float, default=2, help="seconds between two deaths, on average")
    parser.add_argument("--factor", type=float, default=3, help="of the slow learner's steps")
    parser.add_argument("--out", help="a folder that keeps the runs")
    arguments, options = parser.parse_known_args()
    kept = None if arguments.out else tempfile.TemporaryDirectory()
    arguments.out = arguments.out or kept.name
    rows = {method: [] for method in METHODS}
    plain = []
    for seed in arguments.seeds:
        plain.append(rate(train(arguments, options, "data-parallel", seed, "", "none")))
        for method in METHODS:
            rows[method].append(compare(arguments, options, method, seed))
    print(f"data-parallel without failures: {statistics.mean(plain):.0f} tokens/s")
    names = list(rows[METHODS[0]][0])
    print("| | " + " | ".join(METHODS) + " |\n|---|" + "---|" * len(METHODS))
    for name in names:
        means = [statistics.mean(row[name] for row in rows[method]) for method in METHODS]
        print(f"| {name} | " + " | ".join(f"{mean:.4g}" for mean in means) + " |")


if __name__ == "__main__":
    main()
