#!/usr/bin/env python3
"""What single settings, slow learners and deaths do to the loss: tables of emulated runs (docs/emulation.md).

    benchmarks/ablations/ablations.py build/release/archipelago inputs/data/kjv.h5 [--tables merge slow ...]

Every row is the base run with what the row says changed, once for each seed; the same program on the same kind of
processor gives the same table again. Folders of finished runs in --keep are read instead of run again, and no run is
begun after --minutes, so that the whole can be made in pieces.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

# A small byte-level decoder, eight learners with batches of 8 x 32, 600 steps.
BASE = {
    "model.layers": 2, "model.width": 64, "model.heads": 4, "model.context": 32,
    "train.batch": 8, "train.steps": 600, "train.warmup": 60, "train.lr": 0.008, "train.min_lr": 0,
    "train.validation": 131072, "train.jitter": 0.05, "link.latency": 0.1,
    "sync.learners": 8, "sync.spares": 0, "sync.interval": 12, "sync.fragments": 12, "sync.outer_momentum": 0.5,
    "failure.return_seconds": 30, "restart.join": 10,
}
ONE_SLOW = {"train.step_seconds": "1,1,1,1,1,1,1,2.5"}
HALF_SLOW = {"train.step_seconds": "1,1,1,1,1.18,1.18,1.18,1.18", "train.jitter": 0.1}
LONG = {"train.steps": 2500, "sync.outer_momentum": 0.7}
FIRST = {"sync.quorum": 1, "sync.grace": 0}
GRACE = {"sync.quorum": 1, "sync.grace": 0.75}
ALL = {"sync.quorum": 8}


def quorums(name, speeds):
    return [(f"{name}, K = 1", {**speeds, **FIRST}), (f"{name}, K = 1 and grace", {**speeds, **GRACE}),
            (f"{name}, K = 8", {**speeds, **ALL})]


def values(title, option, numbers):
    return [(f"{title} = {number}", {option: number}) for number in numbers]


def merges():
    rows = []
    for learners in (4, 8, 16):
        everyone = {"sync.learners": learners, "sync.quorum": learners}
        rows.append((f"M = {learners}, data-parallel", {"sync.learners": learners, "method": "data-parallel"}))
        rows.append((f"M = {learners}, RDA", everyone))
        rows.append((f"M = {learners}, mean", {**everyone, "sync.merge": "mean"}))
        rows.append((f"M = {learners}, mean, outer momentum 0.75",
                     {**everyone, "sync.merge": "mean", "sync.outer_momentum": 0.75}))
    return rows


TABLES = {
    "merge": merges(),
    "slow": [*quorums("all alike", {}), *quorums("one of 8 takes 2.5 times as long", ONE_SLOW),
             *quorums("4 of 8 take 1.18 times as long, jitter 0.1", HALF_SLOW)],
    "deaths": [("none", {})] + [(f"a death every {seconds} s", {"chaos": f"kill learner=any every={seconds} seed={{seed}}"})
                                for seconds in (100, 40, 15)]
    + [("none, 6 learners for the same tokens", {"sync.learners": 6, "train.steps": 800})],
    "momentum": values("outer momentum", "sync.outer_momentum", [0, 0.3, 0.5, 0.7, 0.9]),
    "overlap": values("tau", "sync.overlap", [1, 2, 4])
    + [(f"links of 1.5 s one way, tau = {steps}", {"link.latency": 1.5, "sync.overlap": steps})
       for steps in (2, 6, 12)],
    "interval": [(f"H = {steps}", {"sync.interval": steps, "sync.fragments": min(steps, 24)})
                 for steps in (6, 12, 24, 48)],
    "fragments": values("P", "sync.fragments", [1, 4, 12]),
    "long": [("data-parallel", {**LONG, "method": "data-parallel"}), ("decoupled", LONG),
             *[(f"decoupled, a death every {seconds} s",
                {**LONG, "chaos": f"kill learner=any every={seconds} seed={{seed}}"}) for seconds in (40, 15)]],
    "wire": values("up", "wire.up", ["f32", "bf16", "int8", "e3m0"]),
}


def options_of(changed, seed):
    options = {**BASE, **changed, "train.seed": seed}
    if "chaos" in options:
        options["chaos"] = options["chaos"].format(seed=seed)
    return options


class Runs:
    """Runs of the program by their options, kept in a folder."""

    def __init__(self, program, data, folder, minutes):
        self.program, self.data, self.folder = program, data, folder
        self.deadline = time.monotonic() + 60 * minutes

    def summary(self, options):
        words = [f"--{name}={value}" for name, value in sorted(options.items())]
        out = self.folder / hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
        file = out.with_suffix(".json")
        if file.exists():
            return json.loads(file.read_text())
        if time.monotonic() > self.deadline:
            return None
        with tempfile.TemporaryDirectory(prefix="run-", dir=self.folder) as scratch:
            run = pathlib.Path(scratch) / "run"
            subprocess.run([self.program, "emulate", *words, f"--data.path={self.data}", f"--out={run}"],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            (run / "summary.json").rename(file)
        return json.loads(file.read_text())


def print_row(name, summaries):
    def mean(field):
        return statistics.mean(summary[field] for summary in summaries)
    losses = [summary["final_val_loss"] for summary in summaries]
    merged = statistics.mean(summary["merged_tokens"] / summary["trained_tokens"] for summary in summaries)
    print(f"| {name} | {', '.join(f'{loss:.4f}' for loss in losses)} | {statistics.mean(losses):.4f}"
          f" | {mean('merges'):.0f} | {mean('contributors'):.2f} | {merged:.1%} | {mean('losses'):.0f}"
          f" | {mean('wall_s'):.0f} | {mean('goodput'):.1%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--keep", type=pathlib.Path, help="folder of finished runs")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="archipelago-ablations-") as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        runs = Runs(arguments.program, arguments.data, folder, arguments.minutes)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            wanted = {(table, name, seed): pool.submit(runs.summary, options_of(changed, seed))
                      for seed in arguments.seeds for table in arguments.tables for name, changed in TABLES[table]}
            for table in arguments.tables:
                print(f"\n## {table}\n\n| | validation loss, a seed each | mean | merges | learners a merge"
                      " | merged tokens | deaths | seconds | goodput |\n|---|---|---:|---:|---:|---:|---:|---:|---:|")
                for name, _ in TABLES[table]:
                    done = [wanted[table, name, seed].result() for seed in arguments.seeds]
                    if None not in done:
                        print_row(name, done)


if __name__ == "__main__":
    main()
