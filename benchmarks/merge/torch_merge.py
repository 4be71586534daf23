"""The merge of src/sync/merge.h in PyTorch, as its own process; see merge.py.

    torch_merge.py LEARNERS MEBIBYTES PIECE_ELEMENTS THREADS

Takes the orders of bench_merge ("merge N") and answers as it does.
"""

import sys
import time

import torch


def merge(theta, momentum, learners, shares, piece, lr, mu):
    for begin in range(0, theta.numel(), piece):
        part = slice(begin, min(begin + piece, theta.numel()))
        deltas = theta[part] - learners[:, part]
        norms = torch.linalg.vector_norm(deltas, dim=1, dtype=torch.float64)
        radius = (shares * norms).sum()
        direction = (shares / norms).float() @ deltas
        length = torch.linalg.vector_norm(direction, dtype=torch.float64)
        delta = direction.mul_((radius / length).float())
        momentum[part].mul_(mu).add_(delta)
        theta[part].sub_(delta.add_(momentum[part], alpha=mu), alpha=lr)


def main():
    learners, mebibytes, piece, threads = map(int, sys.argv[1:])
    torch.set_num_threads(threads)
    size = mebibytes * 2**20 // 4
    theta = torch.rand(size) - 0.5
    momentum = 0.01 * (torch.rand(size) - 0.5)
    values = torch.rand(learners, size) - 0.5
    weights = 1.0 + torch.arange(learners, dtype=torch.float64)
    shares = weights / weights.sum()
    for line in sys.stdin:
        times = int(line.split()[1])
        wall, processor = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            for _ in range(times):
                merge(theta, momentum, values, shares, piece, 0.0, 0.9)
        print((time.perf_counter() - wall) / times, (time.process_time() - processor) / times, flush=True)


if __name__ == "__main__":
    main()
