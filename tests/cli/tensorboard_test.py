"""scripts/tensorboard: its records are those that TensorBoard's own writer makes."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.environ["TEST_SCRIPT"]

# By tensorboard 2.21's RecordWriter: Event(wall_time=1000, file_version="brain.Event:2"), then
# Event(wall_time=1001.5, step=300) with training/loss 2.5 and seconds/step 0.25.
GOLDEN = ("1800000000000000a37f4b22090000000000408f401a0d627261696e2e4576656e743a3273ae6b56"
          "39000000000000008b0737f10900000000004c8f4010ac022a2b0a140a0d747261696e696e672f6c6f73731500002040"
          "0a130a0c7365636f6e64732f73746570150000803e2a587ae1")


class TensorBoard(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = pathlib.Path(folder.name) / "run"
        self.run_folder.mkdir()
        config = self.run_folder / "config.ini"
        config.touch()
        os.utime(config, (1000, 1000))

    def write(self, rows, end=""):
        (self.run_folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + end)

    def convert(self, **environment):
        return subprocess.run([sys.executable, SCRIPT, self.run_folder], capture_output=True, text=True,
                              env={**os.environ, **environment})

    def file_of(self, who):
        return next((self.run_folder / "tensorboard" / who).iterdir()).read_bytes()

    def test_bytes(self):
        self.write([{"t": 1.5, "learner": 2, "step": 300, "loss": 2.5, "step_s": 0.25, "blocked_s": None}])
        done = self.convert()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.file_of("learner-2").hex(), GOLDEN)

    def test_rounds_validations_and_launches(self):
        step = {"learner": 0, "loss": 1.0, "lr": 0.001, "grad_norm": 0.5, "step_s": 0.1, "blocked_s": 0}
        self.write([{"t": 5, "step": 1, **step},
                    {"t": 6, "round": 1, "contributors": [0, 2], "wait_s": 0.5, "merge_s": 0.001},
                    {"t": 6.5, "validated_round": 1, "tokens": 100, "val_loss": 3.25},
                    {"t": 1, "step": 2, **step}], end='{"t": 2, "lear')
        self.assertEqual(self.convert().returncode, 0)
        for tag in (b"training/learning_rate", b"training/gradient_norm"):
            self.assertIn(tag, self.file_of("learner-0"))
        for tag in (b"rounds/learners", b"seconds/round_open", b"seconds/merge", b"validation/loss"):
            self.assertIn(tag, self.file_of("syncer"))
        # The second launch wrote config.ini; the first one's 6.5 s lie before.
        for time in (998.5, 1001):
            self.assertIn(b"\x09" + struct.pack("<d", time), self.file_of("learner-0"))

    def test_a_name_that_standard_output_cannot_say(self):
        self.run_folder = self.run_folder.rename(self.run_folder.with_name("r\u00fcn"))
        self.write([{"t": 1, "learner": 0, "step": 1, "loss": 1.0}])
        done = self.convert(PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("r\\xfcn", done.stdout)

    def test_no_run(self):
        done = self.convert()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("metrics.jsonl: No such file", done.stderr)


if __name__ == "__main__":
    unittest.main()
