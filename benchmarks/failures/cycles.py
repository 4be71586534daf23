#!/usr/bin/env python3
"""Counts kill and rejoin cycles at random moments, and what else broke: nothing should.

    benchmarks/failures/cycles.py build/release/archipelago inputs/data/kjv.h5 --cycles 200
    benchmarks/failures/cycles.py build/release/archipelago inputs/data/kjv.h5 --cycles 100 --hosts 3   # as root

Jobs of three learners and 22 spares, one after the other, with --hosts in as many network namespaces. In each,
learners are killed (kill -9) at random times, two at once, while they join, in the middle of a transfer and of a
checkpoint (docs/reliability.md, "Chaos plans"); when all that is planned has happened and the last one counts
again, the job is asked to stop. A cycle is a kill whose learner counted again, or was killed again while it
joined. A survivor that was lost without being killed is a crash, as is a job that ends by itself or was started
again; a job without a new cycle for --patience seconds is a hang.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import run_folder

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "hosts"))
import hosts as network  # noqa: E402

STOPPED = 75
KILLS = 20
MODEL = ["--model.layers=1", "--model.width=64", "--model.heads=2", "--model.context=64",
         "--train.batch=4", "--train.steps=1000000", "--train.validation=1024", "--sync.learners=3",
         f"--sync.spares={KILLS + 2}", "--sync.refill=false", "--sync.fragments=8", "--sync.interval=8",
         "--checkpoint.learner_steps=20", "--checkpoint.global_rounds=20"]


def plan(seed):
    return (f"kill learner=any every=1.5 count=9 seed={seed}; "
            f"kill learner=any every=4 count=3 when=transfer seed={seed + 1}; "
            f"kill learner=any every=4 count=2 when=checkpoint seed={seed + 2}; "
            f"kill learner=any every=3 count=2 when=join seed={seed + 3}; "
            f"kill learner=any every=5 count=2 victims=2 seed={seed + 4}")


def read_events(out):
    try:
        return run_folder.lines(out / "events.jsonl")
    except FileNotFoundError:
        return []


def count(events):
    """Kills, cycles, and deaths that no kill explains."""
    kills = run_folder.kills(events)
    killed = {(kill["learner"], kill["incarnation"]) for kill in kills}
    cycles = sum(kill["merged_after"] is not None or
                 (kill["learner"], kill["incarnation"] + 1) in killed for kill in kills)
    types = [entry.get("event", {}).get("type") for entry in events]
    crashes = max(0, types.count("island_lost") - len(kills)) + sum("takeover" in entry for entry in events)
    return len(kills), cycles, crashes


def job(arguments, options, hosts, seed, out):
    """Runs one job to its end; its kills, cycles, crashes and hangs."""
    command = [arguments.program, "launch", "--restarts", "0"]
    if hosts:
        command += ["--hosts", ",".join(hosts.names)]
    command += ["--", f"--data.path={arguments.data}", f"--out={out}", f"--chaos={plan(seed)}", *MODEL,
                *options]
    with open(out.with_suffix(".log"), "w") as log:
        if hosts:
            process = subprocess.Popen(hosts.on("h1", command), env=hosts.environment(), stdout=log,
                                       stderr=log)
        else:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        seen, since, hangs, asked = -1, time.monotonic(), 0, False
        while process.poll() is None:
            time.sleep(1)
            kills, cycles, _ = count(read_events(out))
            if cycles != seen:
                seen, since = cycles, time.monotonic()
            if kills >= KILLS and cycles >= kills:
                (out / "stop").touch()
                asked = True
            elif time.monotonic() - since > arguments.patience:
                hangs, since = 1, time.monotonic()
                process.terminate()
    kills, cycles, crashes = count(read_events(out))
    if process.returncode != STOPPED or not (asked or hangs):
        crashes += 1
        print(out.with_suffix(".log").read_text()[-2000:], file=sys.stderr)
    return kills, cycles, crashes, hangs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=120)
    parser.add_argument("--out", help="a folder that keeps the runs")
    arguments, options = parser.parse_known_args()
    arguments.program = pathlib.Path(arguments.program).resolve()
    hosts = network.Hosts(arguments.hosts) if arguments.hosts else None
    seconds = []
    total = [0, 0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        seed = arguments.seed
        while total[1] < arguments.cycles and total[3] == 0:
            out = pathlib.Path(arguments.out or folder) / f"run-{seed}"
            total = [a + b for a, b in zip(total, job(arguments, options, hosts, seed, out))]
            seconds += [kill["merged_after"] for kill in run_folder.kills(read_events(out))
                        if kill["merged_after"] is not None]
            print("kills {}, cycles {}, crashes {}, hangs {}".format(*total), flush=True)
            seed += 10
    seconds.sort()
    print(f"first merged fragment of the next life: median {seconds[len(seconds) // 2]:.3f} s, "
          f"longest {seconds[-1]:.3f} s after the kill")
    return 1 if total[2] or total[3] else 0


if __name__ == "__main__":
    sys.exit(main())
