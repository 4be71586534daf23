#!/usr/bin/env python3
"""Compares loss and every gradient with PyTorch's for the same parameters and batch.

    python3 -m venv build/pytorch && build/pytorch/bin/pip install torch numpy
    build/pytorch/bin/python tests/model/pytorch_parity.py build/release/tests/model/dump_gradients

Fails where a loss or a tensor's gradient is further than 1e-4 (of its norm) from PyTorch's in double
precision, and prints how far PyTorch's own single precision is.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

LIMIT = 1e-4
SIZES = [  # kind layers width heads context vocabulary batch threads
    "gpt 2 48 3 17 101 3 1",
    "gpt 4 128 4 128 256 4 2",
    "gpt 2 384 6 256 256 2 1",
    "gpt 1 64 1 300 5003 2 2",
    "moe 2 48 3 17 101 3 1",
    "moe 3 128 4 128 256 2 2",
    "vit 2 48 3 16 10 5 1",
    "vit 4 128 4 64 10 8 2",
]


def read_safetensors(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    types = {"F32": np.float32, "I32": np.int32}
    arrays = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[begin:end], types[entry["dtype"]])
        arrays[name] = torch.from_numpy(array.reshape(entry["shape"]).copy())
    return metadata, arrays


class Network:
    """The networks of src/model/ as functions of their named tensors."""

    def __init__(self, metadata, tensors):
        self.metadata = metadata
        self.tensors = tensors
        self.router_losses = 0

    def number(self, name):
        return float(self.metadata[name])

    def norm(self, name, x):
        return F.layer_norm(
            x, x.shape[-1:], self.tensors[name + ".weight"], self.tensors[name + ".bias"]
        )

    def linear(self, name, x):
        return x @ self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def feed_forward(self, name, x):
        inner = F.gelu(self.linear(name + "c_fc", x), approximate="tanh")
        return self.linear(name + "c_proj", inner)

    def experts(self, name, x):
        logits = x @ self.tensors[name + "router.weight"]
        count, chosen_count = int(self.number("experts")), int(self.number("experts_per_token"))
        top, chosen = logits.topk(chosen_count)
        used = F.one_hot(chosen, count).to(x.dtype)
        gates = (used * top.softmax(-1).unsqueeze(-1)).sum(-2)
        load = used.mean((0, 1, 2))
        balance = count * (load * logits.softmax(-1).mean((0, 1))).sum()
        z = logits.logsumexp(-1).square().mean()
        self.router_losses += self.number("balance_loss") * balance
        self.router_losses += self.number("router_z_loss") * z
        return sum(
            gates[..., e : e + 1] * self.feed_forward(f"{name}experts.{e}.", x) for e in range(count)
        )

    def trunk(self, x, causal):
        B, T, C = x.shape
        heads = int(self.number("heads"))
        half = self.experts if self.metadata["kind"] == "moe" else self.feed_forward
        for layer in range(int(self.number("layers"))):
            block = f"h.{layer}."
            q, k, v = (
                part.view(B, T, heads, C // heads).transpose(1, 2)
                for part in self.linear(block + "attn.c_attn", self.norm(block + "ln_1", x)).split(C, 2)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            mixed = mixed.transpose(1, 2).reshape(B, T, C)
            x = x + self.linear(block + "attn.c_proj", mixed)
            x = x + half(block + "mlp.", self.norm(block + "ln_2", x))
        return self.norm("ln_f", x)

    def logits(self, arrays):
        if self.metadata["kind"] == "vit":
            patch = int(self.number("patch"))
            weight = self.tensors["patches.weight"]
            images = arrays["images"].to(weight.dtype)
            kernel = weight.T.reshape(-1, images.shape[1], patch, patch)
            x = F.conv2d(images, kernel, self.tensors["patches.bias"], stride=patch)
            x = x.flatten(2).transpose(1, 2) + self.tensors["positions.weight"]
            return self.linear("head", self.trunk(x, False).mean(1))
        x = self.tensors["wte.weight"][arrays["inputs"].long()] + self.tensors["wpe.weight"]
        return self.trunk(x, True).flatten(0, 1) @ self.tensors["wte.weight"].T


def torch_gradients(metadata, arrays, dtype):
    tensors = {
        name.removeprefix("parameter."): array.to(dtype, copy=True).requires_grad_()
        for name, array in arrays.items()
        if name.startswith("parameter.")
    }
    network = Network(metadata, tensors)
    targets = arrays["targets"].long().flatten()
    loss = F.cross_entropy(network.logits(arrays), targets, ignore_index=-1)
    (loss + network.router_losses).backward()
    return loss.item(), {name: tensor.grad for name, tensor in tensors.items()}


def distance(actual, expected):
    return ((actual.double() - expected).norm() / expected.norm()).item()


def compare(program, size, folder):
    path = folder / "dump.safetensors"
    subprocess.run([program, path, *size.split()], check=True)
    metadata, arrays = read_safetensors(path)
    loss, gradients = torch_gradients(metadata, arrays, torch.float64)
    single_loss, single = torch_gradients(metadata, arrays, torch.float32)
    given = {name.removeprefix("gradient."): a for name, a in arrays.items() if "gradient." in name}
    assert given.keys() == gradients.keys(), given.keys() ^ gradients.keys()
    ours = {name: distance(given[name], gradients[name]) for name in given}
    theirs = max(distance(single[name], gradients[name]) for name in given)
    loss_distance = abs(arrays["loss"].item() - loss) / loss
    worst = max(ours, key=ours.get)
    print(
        f"{size:28}  loss {loss_distance:.1e} (PyTorch f32 {abs(single_loss - loss) / loss:.1e})"
        f"  worst of {len(ours)} gradients {ours[worst]:.1e} in {worst} (PyTorch f32 {theirs:.1e})"
    )
    return loss_distance <= LIMIT and ours[worst] <= LIMIT


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built dump_gradients")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(arguments.program, size, pathlib.Path(folder)) for size in SIZES]
    if not all(results):
        sys.exit(f"further than {LIMIT} from PyTorch")


if __name__ == "__main__":
    main()
