"""The commands that work on files, end to end: prepare, import, inspect, evaluate, sample, export.

The model is a random GPT-2 that this script writes as safetensors, so no training is needed. Standard
library only. The program's path is in TEST_PROGRAM.
"""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ.get("TEST_PROGRAM") or sys.argv.pop(1)
LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 1, 8, 2, 16, 256
TEXT = "".join(f"And the number of line {i} was {i * i}.\n" for i in range(400))


def run(*arguments, code=0):
    """The command's standard output; its standard error where it is to fail."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: exit code {done.returncode}\n{done.stderr}")
    if code != 0:
        assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stdout if code == 0 else done.stderr


def shapes():
    c = WIDTH
    result = {"wte.weight": [VOCABULARY, c], "wpe.weight": [CONTEXT, c]}
    for layer in range(LAYERS):
        prefix = f"h.{layer}."
        for name, shape in {
            "ln_1.weight": [c], "ln_1.bias": [c],
            "attn.c_attn.weight": [c, 3 * c], "attn.c_attn.bias": [3 * c],
            "attn.c_proj.weight": [c, c], "attn.c_proj.bias": [c],
            "ln_2.weight": [c], "ln_2.bias": [c],
            "mlp.c_fc.weight": [c, 4 * c], "mlp.c_fc.bias": [4 * c],
            "mlp.c_proj.weight": [4 * c, c], "mlp.c_proj.bias": [c],
        }.items():
            result[prefix + name] = shape
    return result | {"ln_f.weight": [c], "ln_f.bias": [c]}


def random_model(seed):
    generator = random.Random(seed)
    return {name: (shape, [generator.gauss(0, 0.3) for _ in range(math.prod(shape))])
            for name, shape in shapes().items()}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    raw = path.read_bytes()
    length = struct.unpack_from("<Q", raw)[0]
    data = raw[8 + length:]
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__")
    return {name: (entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


class Commands(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        self.text = self.folder / "text.txt"
        self.text.write_text(TEXT)
        self.tokens = self.folder / "tokens.h5"
        run("prepare", "text", self.text, "--out", self.tokens, "--source", "a test")
        self.model = random_model(1)
        self.safetensors = self.folder / "model.safetensors"
        write_safetensors(self.safetensors, self.model)
        self.checkpoint = self.folder / "model.h5"
        run("import", self.safetensors, self.checkpoint, "--model.heads", HEADS)

    def test_prepare_keeps_what_is_there(self):
        before = self.tokens.read_bytes()
        run("prepare", "text", self.text, "--out", self.tokens, code=78)
        self.assertEqual(self.tokens.read_bytes(), before)
        run("prepare", "text", self.text, "--out", self.tokens, "--vocabulary", 300, "--force")
        self.assertNotEqual(self.tokens.read_bytes(), before)

    def test_prepare_refuses(self):
        out = self.folder / "new.h5"
        for arguments, code in (
            ([self.folder / "absent.txt", "--out", out], 65),
            ([self.text], 64),
            ([self.text, "--out", out, "--vocabulary", "256"], 64),
            ([self.text, "--out", out, "--vocabulary", "words"], 64),
            ([self.text, "--out", out, "--vocabulary", "60000"], 65),
            ([self.text, "--out", self.folder / "no folder" / "new.h5"], 78),
        ):
            run("prepare", "text", *arguments, code=code)
        self.assertFalse(out.exists())

    def test_export_gives_back_what_was_imported(self):
        out = self.folder / "exported"
        out.mkdir()
        run("export", self.checkpoint, out / "model.safetensors")
        exported = read_safetensors(out / "model.safetensors")
        self.assertEqual(set(exported), set(self.model))
        for name, (shape, values) in self.model.items():
            self.assertEqual(exported[name], (shape, struct.pack(f"<{len(values)}f", *values)))
        description = json.loads((out / "config.json").read_text())
        self.assertEqual([description[key] for key in
                          ("n_layer", "n_head", "n_embd", "n_positions", "vocab_size")],
                         [LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY])
        run("export", self.checkpoint, out / "model.safetensors", code=78)
        again = self.folder / "again.h5"
        run("import", out / "model.safetensors", again)  # heads from config.json
        differences = json.loads(run("inspect", self.checkpoint, "--diff", again, "--json"))
        for each in differences["differences"]:
            self.assertEqual((each["largest_absolute"], each["note"]), (0, ""), each["path"])

    def test_inspect(self):
        report = json.loads(run("inspect", self.checkpoint, "--json"))
        self.assertEqual(report["kind"], "global")
        self.assertEqual(report["config"]["model.width"], str(WIDTH))
        shown = {each["path"]: each for each in report["datasets"]}
        for name, (shape, values) in self.model.items():
            dataset = shown["/params/" + name]
            self.assertEqual(dataset["shape"], shape)
            self.assertEqual(dataset["not_finite"], 0)
            self.assertAlmostEqual(dataset["norm"], math.hypot(*values), places=4)
        self.assertIn("/params/wte.weight", run("inspect", self.checkpoint))

    def test_inspect_finds_damage(self):
        self.assertIn("intact", run("inspect", self.checkpoint, "--verify"))
        raw = bytearray(self.checkpoint.read_bytes())
        shape, values = self.model["wpe.weight"]
        raw[raw.index(struct.pack("<4f", *values[:4]))] ^= 1
        self.checkpoint.write_bytes(raw)
        done = subprocess.run([PROGRAM, "inspect", self.checkpoint, "--verify"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 65)
        self.assertIn("/params/wpe.weight", done.stdout)
        self.assertIn("/params/wpe.weight", run("inspect", self.checkpoint, code=65))
        self.assertIn("/params/wpe.weight",
                      run("evaluate", self.checkpoint, "--data", self.tokens, code=65))

    def test_evaluate(self):
        result = json.loads(run("evaluate", self.checkpoint, "--data", self.tokens, "--json"))
        # A random model knows nothing: about ln 256, with some spread of its logits.
        self.assertAlmostEqual(result["loss"], math.log(VOCABULARY), delta=1.5)
        self.assertEqual(result["bytes_per_token"], 1)
        self.assertEqual(result["loss_per_byte"], result["loss"])
        self.assertIn("nats a token", run("evaluate", self.checkpoint, "--data", self.tokens))

    def test_a_runs_folder_stands_for_its_newest_global_checkpoint(self):
        checkpoints = self.folder / "run" / "checkpoints"
        checkpoints.mkdir(parents=True)
        newest = checkpoints / "global-0000000010.h5"
        newest.write_bytes(self.checkpoint.read_bytes())
        (checkpoints / "global-0000000009.h5").write_bytes(b"not looked at")
        (checkpoints / "learner-0-0000000099.h5").write_bytes(b"not looked at")
        done = subprocess.run([PROGRAM, "inspect", self.folder / "run", "--json"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout)["file"], str(newest))
        self.assertRegex(done.stderr, r"\A[^\n]*newest[^\n]*\n\Z")
        self.assertIn(str(newest), done.stderr)
        self.assertEqual(run("evaluate", self.folder / "run", "--data", self.tokens),
                         run("evaluate", newest, "--data", self.tokens))
        out = self.folder / "exported.safetensors"
        run("export", self.folder / "run", out)
        self.assertTrue(out.exists())

    def test_evaluate_refuses_data_of_another_vocabulary(self):
        pairs = self.folder / "pairs.h5"
        run("prepare", "text", self.text, "--out", pairs, "--vocabulary", 300)
        message = run("evaluate", self.checkpoint, "--data", pairs, code=65)
        self.assertIn("vocabulary of 300", message)
        run("evaluate", self.checkpoint, "--data", self.text, code=65)
        run("evaluate", self.checkpoint, "--data", self.folder / "absent.h5", code=65)

    def test_sample_repeats_with_its_seed(self):
        def sample(*options):
            done = subprocess.run([PROGRAM, "sample", self.checkpoint, "--prompt", "And the",
                                   "--tokens", "40", *options], capture_output=True, check=True)
            return done.stdout

        self.assertTrue(sample().startswith(b"And the"))
        self.assertEqual(len(sample()), len("And the") + 40 + 1)
        self.assertEqual(sample("--seed", "3"), sample("--seed", "3"))
        self.assertNotEqual(sample("--seed", "3"), sample("--seed", "4"))
        self.assertEqual(sample("--temperature", "0", "--seed", "3"),
                         sample("--top-k", "1", "--seed", "4"))

    def test_import_refuses(self):
        out = self.folder / "new.h5"
        run("import", self.safetensors, self.checkpoint, "--model.heads", HEADS, code=78)
        run("import", self.safetensors, out, "--model.heads", 3, code=65)
        run("import", self.text, out, code=65)
        del self.model["h.0.ln_2.bias"]
        write_safetensors(self.safetensors, self.model)
        self.assertIn("h.0.ln_2.bias is missing",
                      run("import", self.safetensors, out, "--model.heads", HEADS, code=65))
        self.assertFalse(out.exists())


unittest.main()
