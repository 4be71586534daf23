#!/usr/bin/env python3
"""How much a death costs the others: kills learners of a run and compares the survivors before and
after.

usage: measure.py PROGRAM DATA.h5 [--kills N] [train options ...]

Prints, from the run's own folder, what docs/reliability.md tells: learners' blocked share, the
syncer's longest gap between two polls, how long the dead were away, and the survivors' step rate and
longest gap between two reported steps, with everybody alive and within two seconds of a death.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

AROUND_SECONDS = 2


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def gaps(rows, deaths, near):
    """Gaps between one learner's successive rows that lie near a death, or far from all."""
    found = []
    for before, after in zip(rows, rows[1:]):
        if (before["learner"], before["incarnation"]) != (after["learner"], after["incarnation"]):
            continue
        steps = after["step"] - before["step"]
        close = any(-0.1 < after["t"] - death < AROUND_SECONDS for death in deaths)
        if close == near and steps > 0:
            found.append((after["t"] - before["t"], steps))
    return found


def describe(name, found):
    if not found:
        return
    seconds = sum(gap for gap, _ in found)
    steps = sum(count for _, count in found)
    print(f"{name}: {steps / seconds:.2f} steps/s a learner, longest gap "
          f"{max(gap for gap, _ in found) * 1000:.0f} ms, median "
          f"{statistics.median(gap for gap, _ in found) * 1000:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    arguments, options = parser.parse_known_args()
    apart = arguments.steps // (arguments.kills + 1)
    plan = "; ".join(f"kill learner={kill % 3} step={apart * (kill + 1)}"
                     for kill in range(arguments.kills))
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        subprocess.run(
            [arguments.program, "launch", "--", f"--data.path={arguments.data}", f"--out={out}",
             f"--train.steps={arguments.steps}", f"--sync.spares={arguments.kills}",
             "--sync.refill=0", f"--chaos={plan}", *options], check=True)
        summary = json.loads((out / "summary.json").read_text())
        rows = [row for row in lines(out / "metrics.jsonl") if "learner" in row]
        deaths = [entry["t"] * 1e-9 for entry in lines(out / "events.jsonl") if "fault" in entry]
        for name in ("losses", "rejoins", "goodput", "blocked_fraction", "syncer_max_gap_s"):
            print(f"{name}: {summary[name]:.4g}")
        print("away, s:", ", ".join(f"{seconds:.3f}" for seconds in summary["rejoin_s"]))
        by_learner = {}
        for row in rows:
            by_learner.setdefault(row["learner"], []).append(row)
        for near, name in ((False, "all alive"), (True, "around deaths")):
            describe(name, [gap for learner in by_learner.values()
                            for gap in gaps(learner, deaths, near)])


if __name__ == "__main__":
    main()
