#!/usr/bin/env python3
"""Many learners on one syncer: how long it ever fails to listen.

    benchmarks/exchange/many_learners.py build/release/archipelago inputs/data/kjv.h5

Learners of the quickstart's model train on small batches, each slowed by a chaos plan so that the cores
suffice for all. Prints the syncer's longest gap between two polls, the learners' blocked share, rounds
with how many contributors, and bytes.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--learners", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60, help="of each learner")
    parser.add_argument("--slow", type=float, default=60, help="times as long as it computes")
    arguments, more = parser.parse_known_args()
    plan = "; ".join(f"slow learner={i} factor={arguments.slow} seconds=100000 step=0"
                     for i in range(arguments.learners))
    with tempfile.TemporaryDirectory(prefix="archipelago-many-") as folder:
        out = pathlib.Path(folder) / "run"
        options = {
            "out": out, "data.path": arguments.data, "chaos": plan, "model.layers": 4, "model.width": 128,
            "model.heads": 4, "model.context": 64, "train.batch": 1, "train.steps": arguments.steps,
            "train.validation": 4096, "sync.learners": arguments.learners, "sync.spares": 0,
            "sync.refill": "false", "sync.suspect": 30, "sync.expel": 120, "sync.outlier": 0,
            "checkpoint.learner_steps": 1000000, "checkpoint.global_rounds": 1000000,
        }
        subprocess.run([arguments.program, "launch", "--",
                        *(f"--{name}={value}" for name, value in options.items()), *more], check=True)
        summary = json.loads((out / "summary.json").read_text())
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        contributors = [len(row["contributors"]) for row in rows if "round" in row]
        steps = [row["step_s"] for row in rows if "learner" in row]
        print(f"{arguments.learners} learners, step {statistics.median(steps):.2f} s, {summary['wall_s']:.0f} s: "
              f"longest poll gap {1000 * summary['syncer_max_gap_s']:.0f} ms, "
              f"blocked {summary['blocked_fraction']:.3%}, {len(contributors)} rounds of "
              f"{statistics.mean(contributors):.1f} learners, "
              f"{(summary['bytes_up'] + summary['bytes_down']) / summary['wall_s'] / 1e6:.1f} MB/s, "
              f"largest process {summary['largest_resident_bytes'] / 2**20:.0f} MiB, lost {summary['losses']}")


if __name__ == "__main__":
    main()
