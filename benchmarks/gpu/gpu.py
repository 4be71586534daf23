#!/usr/bin/env python3
"""Measures training steps on a GPU: share of its peak, what the exchange of fragments costs, and the
same step by PyTorch and by llm.c.

    benchmarks/gpu/gpu.py [--models 124M,355M,1.5B] [--build build/release] [--bench PROGRAM] [--peak TFLOPS]
                          [--llmc PATH/train_gpt2cu] [--json FILE]

Each model's line is written as soon as it is measured. PyTorch is measured where this Python has it, llm.c
where its program is given: on random tokens, with its default GELU. Without a GPU everything is reported as
skipped, and the exit code is 77.
"""

import argparse
import array
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

# name: layers, width, heads, context, vocabulary, batch. GPT-2's sizes, the vocabulary rounded up.
MODELS = {
    "124M": (12, 768, 12, 1024, 50304, 64),
    "355M": (24, 1024, 16, 1024, 50304, 32),
    "1.5B": (48, 1600, 25, 1024, 50304, 24),
}
# Dense bf16, by the vendor's data sheets; the first that the name holds.
PEAK_TFLOPS = {"H200 NVL": 835, "H200": 989, "H100 NVL": 835, "H100 PCIe": 756, "H100": 989, "A100": 312}
STEPS = 50
SKIPPED = 77


class Absent(Exception):
    """A peer that was not measured, and why."""


def gpu_name():
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def output_of(command, who, **options):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    except OSError as error:
        raise Absent(f"{who}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise Absent(f"{who} ended with {done.returncode}: {said}")
    return done.stdout


def ours(program, sizes):
    return json.loads(output_of([program, *sizes, STEPS, "bf16"], "bench_gpu"))


def torch_tokens_s(sizes):
    script = pathlib.Path(__file__).with_name("torch_gpu_step.py")
    seconds = float(output_of([sys.executable, script, *sizes, STEPS], "PyTorch"))
    return sizes[3] * sizes[5] / seconds


def write_llmc_tokens(path, count, vocabulary):
    """llm.c's data file: a header of 256 numbers (magic, version, count), then 16 bits a token."""
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    tokens = array.array("H", random.Random(1).choices(range(min(vocabulary, 50257)), k=count))
    with open(path, "wb") as file:
        header.tofile(file)
        tokens.tofile(file)


def llmc_tokens_s(program, sizes):
    """Tokens a second that llm.c tells of its last step."""
    layers, _, _, context, vocabulary, batch = sizes
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "tokens.bin")
        write_llmc_tokens(data, 4 * batch * context + 1, vocabulary)
        out = output_of([program, "-i", data, "-j", data, "-e", f"d{layers}", "-b", batch, "-t", context,
                         "-x", STEPS, "-v", 1000, "-s", 0, "-d", batch * context], "llm.c")
    rates = re.findall(r"([0-9.]+) tok/s", out)
    if not rates:
        raise Absent("llm.c told of no step")
    return float(rates[-1])


def measure(name, sizes, options, peak):
    result = ours(options.bench, sizes)
    row = {
        "model": name,
        "tokens_s": result["tokens"] / result["step_s"],
        "share_of_peak": result["operations"] / result["step_s"] / (peak * 1e12),
        "exchange_costs": result["exchanging_step_s"] / result["step_s"] - 1,
        "peers_tokens_s": {},
        "absent": [],
    }
    peers = {"PyTorch": lambda: torch_tokens_s(sizes)}
    if options.llmc:
        peers["llm.c"] = lambda: llmc_tokens_s(options.llmc, sizes)
    for peer, tokens_s in peers.items():
        try:
            row["peers_tokens_s"][peer] = tokens_s()
        except Absent as why:
            row["absent"].append(str(why))
    return row


def told(row):
    line = (f"{row['model']}: {row['tokens_s'] / 1e3:.0f}k tokens/s, {100 * row['share_of_peak']:.1f} % of peak, "
            f"the exchange costs {100 * row['exchange_costs']:+.1f} %")
    for peer, tokens_s in row["peers_tokens_s"].items():
        line += f"; {peer} {tokens_s / 1e3:.0f}k"
    return "\n".join([line, *(f"  not measured: {why}" for why in row["absent"])])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", default=",".join(MODELS), help="of " + ", ".join(MODELS))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--bench", type=pathlib.Path, help="a bench_gpu that is built already")
    parser.add_argument("--peak", type=float, help="dense bf16 TFLOP/s of this GPU")
    parser.add_argument("--llmc", help="llm.c's train_gpt2cu")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the figures")
    options = parser.parse_args()
    models = options.models.split(",")
    if unknown := [name for name in models if name not in MODELS]:
        sys.exit(f"there is no model {unknown[0]}; there are {', '.join(MODELS)}")

    gpu = gpu_name()
    if gpu is None:
        print(f"no GPU: skipped {len(models)} benchmarks ({', '.join(models)})")
        sys.exit(SKIPPED)
    peak = options.peak or next((p for name, p in PEAK_TFLOPS.items() if name in gpu), None)
    if peak is None:
        sys.exit(f"the peak of {gpu} is not known here: give --peak")
    if options.bench is None:
        subprocess.run(["cmake", "--build", options.build, "--target", "bench_gpu"], check=True)
        options.bench = options.build / "benchmarks/gpu/bench_gpu"
    print(f"{gpu}, peak {peak:g} TFLOP/s", flush=True)
    rows, failed = [], False
    for name in models:
        try:
            rows.append(measure(name, MODELS[name], options, peak))
            print(told(rows[-1]), flush=True)
        except Absent as why:
            failed = True
            print(f"{name}: {why}", flush=True)
        if options.json:
            options.json.write_text(json.dumps({"gpu": gpu, "peak_tflops": peak, "models": rows}, indent=1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
