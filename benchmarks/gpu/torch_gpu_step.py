"""The training step of gpu.py by PyTorch on a GPU: compiled, bf16 autocast, fused attention and AdamW.

torch_gpu_step.py layers width heads context vocabulary batch steps: median seconds a step.
"""

import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "step"))
from torch_gpt import Gpt  # noqa: E402

WARM_UP = 10


def main():
    layers, width, heads, context, vocabulary, batch, steps = map(int, sys.argv[1:])
    if not torch.cuda.is_available():
        sys.exit("no GPU")
    torch.manual_seed(1)
    network = Gpt(layers, width, heads, context, vocabulary).cuda()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(vocabulary, (batch * context + 1,), device="cuda")
    inputs, targets = tokens[:-1].view(batch, context), tokens[1:].view(batch, context)
    forward = torch.compile(network)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    seconds = []
    for _ in range(WARM_UP + steps):
        started = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - started)
    print(statistics.median(seconds[WARM_UP:]))


if __name__ == "__main__":
    main()
