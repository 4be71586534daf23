#!/usr/bin/env python3
"""Single-precision matrix products of a training step by the libraries that Debian and PyPI ship.

    apt-get install libdnnl-dev libopenblas-dev libblis-dev
    python3 -m venv build/matmul && build/matmul/bin/pip install numpy scipy-openblas32 mkl
    build/matmul/bin/python benchmarks/matmul/matmul.py

One thread, as kernels/cpu/ calls them: it cuts each product between its own threads. Libraries take
turns in processes of their own; the table has the median of the rounds in GFLOP a second of processor
time, which other programs on the machine disturb least. Libraries that are not installed are left out.
"""

import argparse
import ctypes
import glob
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

# transposed operand, m, n, k: forward, input gradient and weight gradient of the two benchmark models.
SHAPES = [
    ("-", 2048, 384, 128), ("-", 2048, 512, 128), ("-", 2048, 128, 512),
    ("right", 2048, 128, 512), ("left", 128, 512, 2048),
    ("-", 2048, 1536, 384), ("-", 2048, 384, 1536),
    ("right", 2048, 384, 1536), ("left", 384, 1536, 2048),
    ("-", 256, 1536, 384), ("-", 2048, 2048, 2048),
]  # fmt: skip
LIBRARIES = {  # name: (where, symbol)
    "oneDNN (Debian)": ("/usr/lib/*/libdnnl.so*", "dnnl_sgemm"),
    "OpenBLAS (Debian)": ("/usr/lib/*/openblas-pthread/libopenblas.so*", "cblas_sgemm"),
    "BLIS (Debian)": ("/usr/lib/*/blis-*/libblis.so*", "cblas_sgemm"),
    "OpenBLAS (PyPI)": (sys.prefix + "/lib/python3*/site-packages/scipy_openblas32/lib/libscipy*.so",
                        "scipy_cblas_sgemm"),
    "MKL (PyPI)": (sys.prefix + "/lib/libmkl_rt.so*", "cblas_sgemm"),
}  # fmt: skip
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_THREADING_LAYER": "SEQUENTIAL",
}


def product(path, symbol):
    """A function (transposed, m, n, k, a, b, c) that computes c += a b."""
    function = getattr(ctypes.CDLL(path), symbol)
    one = ctypes.c_float(1)
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)

    def dnnl(transposed, m, n, k, a, b, c):
        size = ctypes.c_int64
        function(ctypes.c_char(b"T" if transposed == "left" else b"N"),
                 ctypes.c_char(b"T" if transposed == "right" else b"N"),
                 size(m), size(n), size(k), one, pointer(a), size(a.shape[1]), pointer(b),
                 size(b.shape[1]), one, pointer(c), size(n))  # fmt: skip

    def cblas(transposed, m, n, k, a, b, c):
        function(101, 112 if transposed == "left" else 111, 112 if transposed == "right" else 111,
                 m, n, k, one, pointer(a), a.shape[1], pointer(b), b.shape[1], one, pointer(c),
                 n)  # fmt: skip

    return dnnl if symbol == "dnnl_sgemm" else cblas


def measure(path, symbol):
    """GFLOP a processor second of each shape."""
    multiply = product(path, symbol)
    generator = np.random.default_rng(1)
    rates = []
    for transposed, m, n, k in SHAPES:
        a = generator.random((k, m) if transposed == "left" else (m, k), np.float32)
        b = generator.random((n, k) if transposed == "right" else (k, n), np.float32)
        c = np.zeros((m, n), np.float32)
        multiply(transposed, m, n, k, a, b, c)
        expected = (a.T if transposed == "left" else a) @ (b.T if transposed == "right" else b)
        assert np.allclose(c, expected, rtol=1e-3), "wrong product"
        flops = 2 * m * n * k
        turns = max(1, int(1e10 / flops))
        start = time.process_time()
        for _ in range(turns):
            multiply(transposed, m, n, k, a, b, c)
        rates.append(turns * flops / (time.process_time() - start) / 1e9)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    found = {
        name: (sorted(glob.glob(pattern))[0], symbol)
        for name, (pattern, symbol) in LIBRARIES.items()
        if glob.glob(pattern)
    }
    rounds = {name: [] for name in found}
    for _ in range(arguments.rounds):
        for name, (path, symbol) in found.items():
            output = subprocess.run([sys.executable, __file__, "--measure", path, symbol],
                                    env=os.environ | ONE_THREAD, check=True, text=True,
                                    stdout=subprocess.PIPE).stdout  # fmt: skip
            rounds[name].append(json.loads(output))
    print("| transposed | m | n | k |", " | ".join(found), "|")
    print("|---|---|---|---|" + "---|" * len(found))
    for index, shape in enumerate(SHAPES):
        rates = [statistics.median(one[index] for one in rounds[name]) for name in found]
        print("|", " | ".join(map(str, shape)), "|", " | ".join(f"{r:.0f}" for r in rates), "|")


if __name__ == "__main__":
    main()
