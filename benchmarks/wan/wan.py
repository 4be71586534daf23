#!/usr/bin/env python3
"""Training speed of each method over links of several rates, as root.

    benchmarks/wan/wan.py build/release/archipelago inputs/data/kjv.h5 [train options ...]

One learner a host, each syncer on one more; hosts are network namespaces (tests/hosts/hosts.py) and every
host's link, a syncer's too, has the row's rate in each direction (tc tbf). Each run trains the quickstart's
model for --seconds after all learners have begun and is then stopped. Methods take turns within a rate. Columns:

    tokens/s    of all learners, from a second after the last of them has begun
    share       of the same method's tokens/s without a limit
    / dp        tokens/s over those of data-parallel at the same rate
    waited      share of their time that learners waited for the exchange (blocked_fraction)
    bytes/token sent and received by all learners
    steps/sync  inner steps a learner made between two merges of one fragment, on average
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "hosts"))
import hosts as network  # noqa: E402

METHODS = ["data-parallel", "diloco", "streaming-diloco", "decoupled"]
MODEL = ["--model.layers=4", "--model.width=128", "--model.heads=4", "--model.context=64",
         "--train.batch=16", "--train.steps=10000000", "--train.validation=1024"]
SETTLING_SECONDS = 1
START_SECONDS = 60


def read_rows(path):
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1]]


def learners_in(rows):
    return {row["learner"] for row in rows if "learner" in row}


def train(hosts, program, method, out, options, learners, seconds):
    """Runs the method for `seconds` after its first steps; its run folder's rows and summary."""
    syncers = len(hosts.names) - learners
    used, more = hosts.names[syncers:], []
    if method == "decoupled":
        used, more = hosts.names, ["--syncers", str(syncers)]
    command = [program, "launch", "--hosts", ",".join(used), *more, "--", f"--method={method}", f"--out={out}",
               f"--sync.learners={learners}", "--sync.spares=0", "--sync.standby=0",
               "--sync.refill=false", *MODEL, *options]
    with open(out.with_suffix(".log"), "w") as log:
        job = subprocess.Popen(hosts.on("h1", command), env=hosts.environment(), stdout=log, stderr=log)
        waited = 0
        while len(learners_in(read_rows(out / "metrics.jsonl"))) < learners:
            time.sleep(0.2)
            waited += 0.2
            if job.poll() is not None or waited > START_SECONDS + seconds:
                job.terminate()
                sys.exit(f"{method} did not start:\n{out.with_suffix('.log').read_text()}")
        time.sleep(seconds)
        (out / "stop").touch()
        job.wait()
    return read_rows(out / "metrics.jsonl"), json.loads((out / "summary.json").read_text())


def measured(rows, summary, fragments):
    """What the run's own records say, by name."""
    steps = [row for row in rows if "learner" in row]
    learners = learners_in(rows)
    # The syncer's link carries the whole model to each learner before that begins.
    all_train = max(min(row["t"] for row in steps if row["learner"] == learner) for learner in learners)
    begin, end = all_train + SETTLING_SECONDS, steps[-1]["t"]
    speed, made = 0, 0
    for learner in learners:
        own = [row for row in steps if row["learner"] == learner and row["t"] >= begin]
        speed += (own[-1]["tokens"] - own[0]["tokens"]) / (own[-1]["t"] - own[0]["t"])
        made += (own[-1]["step"] - own[0]["step"]) / len(learners)
    rounds = [row for row in rows if "round" in row and begin <= row["t"] < end]
    return {"tokens_per_s": speed,
            "waited": summary["blocked_fraction"],
            "bytes_per_token": (summary["bytes_up"] + summary["bytes_down"]) / summary["tokens"],
            "steps_per_sync": made * fragments / len(rounds) if rounds else 1}


def fragments_of(out):
    for line in (out / "config.ini").read_text().splitlines():
        if line.startswith("fragments = "):
            return int(line.split("=")[1])


def print_row(rate, method, values, unlimited, data_parallel):
    share = values["tokens_per_s"] / unlimited if unlimited else float("nan")
    ratio = values["tokens_per_s"] / data_parallel if data_parallel else float("nan")
    print(f"{rate:>10} {method:<18} {values['tokens_per_s']:>9.0f} {share:>7.1%} {ratio:>7.1f}"
          f" {values['waited']:>8.2%} {values['bytes_per_token']:>12.1f}"
          f" {values['steps_per_sync']:>11.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--rates", nargs="+", default=["none", "320mbit", "80mbit", "40mbit", "20mbit", "10mbit"])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--learners", type=int, default=3)
    parser.add_argument("--syncers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20)
    arguments, options = parser.parse_known_args()
    program = arguments.program.resolve()
    options.append(f"--data.path={arguments.data.resolve()}")
    hosts = network.Hosts(arguments.syncers + arguments.learners)
    print(f"{'rate':>10} {'method':<18} {'tokens/s':>9} {'share':>7} {'/ dp':>7} {'waited':>8}"
          f" {'bytes/token':>12} {'steps/sync':>11}")
    unlimited = {}
    with tempfile.TemporaryDirectory() as folder:
        for rate in arguments.rates:
            for name in hosts.names:
                hosts.limit(name, None if rate == "none" else rate)
            data_parallel = None
            for method in arguments.methods:
                out = pathlib.Path(folder) / f"{method}-{rate}"
                rows, summary = train(hosts, program, method, out, options, arguments.learners,
                                      arguments.seconds)
                values = measured(rows, summary, fragments_of(out))
                unlimited.setdefault(method, values["tokens_per_s"] if rate == "none" else None)
                data_parallel = values["tokens_per_s"] if method == "data-parallel" else data_parallel
                print_row(rate, method, values, unlimited[method], data_parallel)


if __name__ == "__main__":
    main()
