#!/usr/bin/env python3
"""How much a death costs the others, and how soon the dead learner counts again.

    benchmarks/failures/measure.py build/release/archipelago inputs/data/kjv.h5 [--kills N] [train options ...]

Trains the quickstart's model with three learners and kills one of them again and again. From the run's own
folder it prints, for what docs/reliability.md tells:

    first merged fragment   from kill -9 to the first merge that holds a fragment of the learner's next life
    next merge              from kill -9 to the next merge of whoever is there
    steps of the others     steps a second, median and longest time between two steps of a learner that was not
                            killed: far from every death, and within two seconds after one
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import run_folder

AFTER_SECONDS = 2
MODEL = ["--model.layers=4", "--model.width=128", "--model.heads=4", "--model.context=64",
         "--train.batch=16", "--train.warmup=60", "--sync.overlap=6", "--sync.grace=0.9"]


def step_gaps(rows, deaths):
    """Seconds a step between successive rows of one life: near a death of another, and far from all."""
    near, far = [], []
    for before, after in zip(rows, rows[1:]):
        steps = after["step"] - before["step"]
        if before["incarnation"] != after["incarnation"] or steps <= 0:
            continue
        seconds = after["t"] - before["t"]
        close = any(before["t"] < death + AFTER_SECONDS and after["t"] > death for death in deaths)
        (near if close else far).append((seconds, steps))
    return near, far


def describe(name, gaps):
    seconds = sorted(gap / steps for gap, steps in gaps)
    rate = sum(steps for _, steps in gaps) / sum(gap for gap, _ in gaps)
    print(f"  {name}: {rate:.2f} steps/s a learner; a step {statistics.median(seconds):.3f} s (median), "
          f"longest {seconds[-1]:.3f} s, of {len(seconds)}")


def describe_seconds(name, seconds):
    print(f"{name}: median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s, "
          f"of {len(seconds)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--steps", type=int, default=600)
    arguments, options = parser.parse_known_args()
    apart = arguments.steps // (arguments.kills + 1)
    plan = "; ".join(f"kill learner=0 step={apart * (kill + 1)}" for kill in range(arguments.kills))
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        subprocess.run(
            [arguments.program, "launch", "--", f"--data.path={arguments.data}", f"--out={out}",
             f"--train.steps={arguments.steps}", f"--sync.spares={arguments.kills}",
             "--sync.refill=0", f"--chaos={plan}", *MODEL, *options],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        summary = json.loads((out / "summary.json").read_text())
        events = run_folder.lines(out / "events.jsonl")
        rows = [row for row in run_folder.lines(out / "metrics.jsonl") if "learner" in row]
    kills = run_folder.kills(events)
    deaths = [kill["t"] for kill in kills]
    merges = run_folder.merge_times(events)
    for name in ("losses", "rejoins", "goodput", "blocked_fraction", "syncer_max_gap_s"):
        print(f"{name}: {summary[name]:.4g}")
    describe_seconds("first merged fragment", [kill["merged_after"] for kill in kills
                                               if kill["merged_after"] is not None])
    describe_seconds("next merge", [min(time for time in merges if time > death) - death
                                    for death in deaths])
    near, far = [], []
    for learner in sorted({row["learner"] for row in rows} - {kill["learner"] for kill in kills}):
        gaps = step_gaps([row for row in rows if row["learner"] == learner], deaths)
        near += gaps[0]
        far += gaps[1]
    print("steps of the others")
    describe("far from every death", far)
    describe(f"within {AFTER_SECONDS} s after one", near)


if __name__ == "__main__":
    main()
