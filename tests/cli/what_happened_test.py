"""scripts/what-happened on folders made up here."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.environ["TEST_SCRIPT"]
SUMMARY = {"reason": "all tokens are trained", "tokens": 4000, "rounds": 9, "wall_s": 20.0,
           "final_val_loss": 1.5, "losses": 0, "rejoins": 0, "goodput": 0.9,
           "blocked_fraction": 0.01}


def steps(learner, rate, loss):
    """A learner's rows of 20 s."""
    return [{"t": i / rate, "learner": learner, "step": i, "loss": loss}
            for i in range(1, 20 * rate)]


def launch(*more):
    return [{"settings": {}},
            {"t": 1e8, "event": {"type": "report", "step_seconds": 0.1}, "actions": []}, *more]


def death(learner, seconds):
    return [{"t": seconds * 1e9, "fault": {"kind": "kill", "learner": learner, "step": 7}},
            {"t": seconds * 1e9 + 1, "event": {"type": "island_lost"}, "actions": []},
            {"t": seconds * 1e9 + 5e8, "rejoined": {"learner": learner}}]


class WhatHappened(unittest.TestCase):

    def tell(self, events, metrics, summary=SUMMARY):
        with tempfile.TemporaryDirectory() as folder:
            for name, rows in (("events.jsonl", events), ("metrics.jsonl", metrics)):
                if rows is None:
                    continue
                pathlib.Path(folder, name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            pathlib.Path(folder, "summary.json").write_text(json.dumps(summary))
            done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_one_launch(self):
        text = self.tell(launch(*death(1, 10)),
                         sorted(steps(0, 10, 4) + steps(1, 10, 2), key=lambda row: row["t"]))
        self.assertIn("4,000 tokens, 9 rounds; 20 s\n", text)
        self.assertIn("learner 1 died (kill -9 at step 7)", text)
        self.assertIn("again after 0.50 s", text)
        self.assertIn("10.0 steps/s in the 10 s before, 10.0 in the 10 s after (+0.0%)", text)
        self.assertIn("\nlost 0", text)
        self.assertNotIn("launch", text)

    def test_launches_are_told_apart(self):
        # The second failed before its first step.
        events = launch() + [{"settings": {}}] + launch(*death(1, 10))
        text = self.tell(events, steps(0, 10, 4) + steps(0, 32, 2))
        self.assertIn("3 launches, the last of 20 s\n", text)
        self.assertIn("launch 1: 0 died\nlaunch 2: 0 died\nlaunch 3: 1 died\n   10.0 s", text)
        self.assertIn("32.0 steps/s in the 10 s before, 32.0 in the 10 s after (+0.0%)", text)
        self.assertIn("training loss    4.000 at the start, 2.000 at the end", text)
        self.assertIn("\nin the last launch: lost 0", text)

    def test_launches_that_did_not_train(self):
        self.assertIn("the file stop; the last launch did not train",
                      self.tell([{"settings": {}}], None, {**SUMMARY, "reason": "the file stop"}))
        failed = {"outcome": "failed", "reason": "rank 2 died", "exit_code": 75}
        self.assertIn("rank 2 died; the last launch did not train",
                      self.tell(launch(*death(1, 10)), steps(0, 10, 4), failed))


if __name__ == "__main__":
    unittest.main()
