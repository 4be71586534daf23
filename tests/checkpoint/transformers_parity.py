#!/usr/bin/env python3
"""Compares a model with what Hugging Face's transformers makes of it, out and back.

    python3 -m venv build/pytorch && build/pytorch/bin/pip install torch numpy h5py transformers
    build/pytorch/bin/python tests/checkpoint/transformers_parity.py build/release/archipelago

Out: a tiny GPT is trained on this project's documents, exported, and loaded by GPT2LMHeadModel.from_pretrained;
its loss on the validation part, in double precision, against `evaluate`'s, its greedy text against `sample`'s.
Back: a GPT-2 model with random weights is saved by save_pretrained and imported; the same of that one. Fails where
losses differ by more than 1e-5 of them, or a token of the texts does.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

LIMIT = 1e-5
PROMPT = "The syncer "
PROJECT = pathlib.Path(__file__).resolve().parents[2]


class Program:

    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()

    def __call__(self, *arguments):
        words = [self.path, *map(str, arguments)]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def validation_loss(model, tokens):
    """Windows one after the other, each without what is before it, as src/evaluate/text_loss.h has them."""
    context = model.config.n_positions
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(tokens) - 1, context):
            window = tokens[first:first + context + 1]
            logits = model(window[None, :-1]).logits[0]
            total += F.cross_entropy(logits, window[1:], reduction="sum").item()
    return total / (len(tokens) - 1)


def greedy_text(model, count):
    prompt = torch.tensor([list(PROMPT.encode())])
    tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=count,
                            eos_token_id=None, pad_token_id=0)
    return bytes(tokens[0].tolist())


def compare(program, what, checkpoint, model, data):
    with h5py.File(data) as file:
        tokens = torch.tensor(file["validation"][:].astype("int64"))
    model = model.double().eval()
    ours = json.loads(program("evaluate", checkpoint, "--data", data, "--json"))["loss"]
    theirs = validation_loss(model, tokens)
    distance = abs(ours - theirs) / theirs
    count = model.config.n_positions - len(PROMPT)
    text = subprocess.run([program.path, "sample", checkpoint, "--prompt", PROMPT, "--tokens", str(count),
                           "--temperature", "0", "--data", data], check=True, stdout=subprocess.PIPE).stdout
    same = text.removesuffix(b"\n") == greedy_text(model, count)
    print(f"{what}: loss {ours:.7f}, transformers {theirs:.7f} (distance {distance:.1e}); "
          f"{count} greedy tokens {'the same' if same else 'DIFFER'}")
    return distance <= LIMIT and same


def exported(program, folder, data):
    run = folder / "run"
    program("emulate", "--data.path", data, "--out", run, "--model.layers", 2, "--model.width", 64, "--model.heads", 4,
            "--model.context", 64, "--train.batch", 8, "--train.steps", 200, "--train.lr", 0.003, "--sync.learners", 2)
    program("export", run, folder / "plain" / "model.safetensors")
    program("export", run, folder / "prefixed" / "model.safetensors", "--prefix", "transformer.")
    models = [load(folder / name) for name in ("plain", "prefixed")]
    pairs = zip(models[0].state_dict().items(), models[1].state_dict().items(), strict=True)
    if not all(one == other and torch.equal(a, b) for (one, a), (other, b) in pairs):
        sys.exit("--prefix changes what transformers loads")
    return compare(program, "exported", run, models[0], data)


def load(folder):
    """Every tensor has to be there, and none besides."""
    model, info = GPT2LMHeadModel.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    wrong = {kind: names for kind, names in info.items() if names}
    if wrong:
        sys.exit(f"{folder}: transformers says {wrong}")
    return model


def imported(program, folder, data):
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(n_layer=3, n_head=6, n_embd=96, n_positions=48, vocab_size=256))
    with torch.no_grad():
        for parameter in model.parameters():  # also biases, which begin at 0, and gains, which begin at 1
            parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder / "theirs")
    checkpoint = folder / "imported.h5"
    program("import", folder / "theirs" / "model.safetensors", checkpoint)
    return compare(program, "imported", checkpoint, model, data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built archipelago")
    program = Program(parser.parse_args().program)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "documents.h5"
        program("prepare", "text", *sorted(PROJECT.glob("docs/*.md")), "--out", data, "--vocabulary", "bytes")
        results = [each(program, folder, data) for each in (exported, imported)]
    if not all(results):
        sys.exit("transformers makes something else of it")


if __name__ == "__main__":
    main()
