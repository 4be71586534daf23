#!/usr/bin/env python3
"""Measures training steps on a GPU: share of its peak, what the exchange of fragments costs, and the
same step by PyTorch and by llm.c.

    benchmarks/gpu/gpu.py [--build build/release] [--peak TFLOPS] [--llmc PATH/train_gpt2cu] [--json]

PyTorch is measured where this Python has it with CUDA; llm.c where its program is given, with the
arguments for random data that its README shows. Without a GPU everything is reported as skipped.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

# name: layers, width, heads, context, vocabulary, batch. GPT-2's sizes, the vocabulary rounded up.
MODELS = {
    "124M": (12, 768, 12, 1024, 50304, 64),
    "355M": (24, 1024, 16, 1024, 50304, 32),
    "1.5B": (48, 1600, 25, 1024, 50304, 8),
}
# Dense bf16, by the vendor's data sheets.
PEAK_TFLOPS = {"H200": 989, "H100": 989, "A100": 312}
STEPS = 50


def gpu_name():
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def ours(program, sizes, exchange):
    command = [program, *map(str, sizes), str(STEPS), "bf16", str(int(exchange))]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def torch_step(sizes):
    """Median seconds of PyTorch's compiled bf16 step, or None without PyTorch on CUDA."""
    script = pathlib.Path(__file__).with_name("torch_gpu_step.py")
    done = subprocess.run([sys.executable, script, *map(str, sizes), str(STEPS)],
                          capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else None


def llmc_tokens_s(program, sizes):
    """Tokens a second that llm.c tells of its last step, or None where it does not run."""
    layers, _, _, context, _, batch = sizes
    command = [program, "-e", f"d{layers}", "-b", str(batch), "-t", str(context), "-x", str(STEPS),
               "-d", str(batch * context)]
    done = subprocess.run(command, capture_output=True, text=True,
                          cwd=pathlib.Path(program).resolve().parent)
    rates = re.findall(r"([0-9.]+) tok/s", done.stdout)
    return float(rates[-1]) if rates else None


def measure(name, sizes, options, peak):
    plain = ours(options.bench, sizes, exchange=False)
    exchanging = ours(options.bench, sizes, exchange=True)
    row = {
        "model": name,
        "tokens_s": plain["tokens"] / plain["step_s"],
        "share_of_peak": plain["operations"] / plain["step_s"] / (peak * 1e12),
        "exchange_costs": exchanging["step_s"] / plain["step_s"] - 1,
    }
    seconds = torch_step(sizes)
    row["pytorch_tokens_s"] = plain["tokens"] / seconds if seconds else None
    row["llmc_tokens_s"] = llmc_tokens_s(options.llmc, sizes) if options.llmc else None
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--peak", type=float, help="dense bf16 TFLOP/s of this GPU")
    parser.add_argument("--llmc", help="llm.c's train_gpt2cu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    gpu = gpu_name()
    if gpu is None:
        print(f"no GPU: skipped {len(MODELS)} benchmarks ({', '.join(MODELS)})")
        return
    peak = options.peak or next((p for name, p in PEAK_TFLOPS.items() if name in gpu), None)
    if peak is None:
        sys.exit(f"the peak of {gpu} is not known here: give --peak")
    subprocess.run(["cmake", "--build", options.build, "--target", "bench_gpu"], check=True)
    options.bench = options.build / "benchmarks/gpu/bench_gpu"
    rows = [measure(name, sizes, options, peak) for name, sizes in MODELS.items()]
    if options.json:
        print(json.dumps({"gpu": gpu, "peak_tflops": peak, "models": rows}, indent=1))
        return
    print(f"{gpu}, peak {peak:g} TFLOP/s")
    for row in rows:
        others = ", ".join(f"{other} {row[key] / 1e3:.0f}k"
                           for other, key in (("PyTorch", "pytorch_tokens_s"),
                                              ("llm.c", "llmc_tokens_s")) if row[key])
        print(f"{row['model']}: {row['tokens_s'] / 1e3:.0f}k tokens/s, "
              f"{100 * row['share_of_peak']:.1f} % of peak, the exchange costs "
              f"{100 * row['exchange_costs']:+.1f} %" + (f"; {others}" if others else ""))


if __name__ == "__main__":
    main()
