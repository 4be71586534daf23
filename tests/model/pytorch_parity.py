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

from torch_gpt import Gpt

LIMIT = 1e-4
SIZES = [  # kind layers width heads context vocabulary batch threads
    "gpt 2 48 3 17 101 3 1",
    "gpt 4 128 4 128 256 4 2",
    "gpt 2 384 6 256 256 2 1",
    "gpt 1 64 1 300 5003 2 2",
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


def torch_gradients(metadata, arrays, dtype):
    vocabulary, width = arrays["parameter.wte.weight"].shape
    context = arrays["parameter.wpe.weight"].shape[0]
    network = Gpt(int(metadata["layers"]), width, int(metadata["heads"]), context, vocabulary)
    network.to(dtype)
    with torch.no_grad():
        for name, parameter, transposed in network.named_like_hugging_face():
            value = arrays["parameter." + name]
            parameter.copy_(value.T if transposed else value)
    loss = network(arrays["inputs"].long(), arrays["targets"].long())
    loss.backward()
    gradients = {
        name: parameter.grad.T if transposed else parameter.grad
        for name, parameter, transposed in network.named_like_hugging_face()
    }
    return loss.item(), gradients


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
