"""bench_step.cc's part played by PyTorch: eager or compiled.

torch_step.py eager|compiled layers width heads context vocabulary batch threads
"""

import resource
import sys
import time

import torch

from torch_gpt import Gpt


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    mode = sys.argv[1]
    layers, width, heads, context, vocabulary, batch, threads = map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    torch.ones(64, 64) @ torch.ones(64, 64)  # what the libraries take for themselves
    memory_before = peak_memory()
    network = Gpt(layers, width, heads, context, vocabulary)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(vocabulary, (batch * context + 1,))
    inputs, targets = tokens[:-1].view(batch, context), tokens[1:].view(batch, context)
    forward = torch.compile(network) if mode == "compiled" else network

    def step():
        forward(inputs, targets).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    for order in sys.stdin:
        if order.strip() == "memory":
            print(peak_memory() - memory_before, flush=True)
        else:
            wall, processor = time.perf_counter(), time.process_time()
            for _ in range(int(order)):
                step()
            print(time.perf_counter() - wall, time.process_time() - processor, flush=True)


if __name__ == "__main__":
    main()
