"""Learners whose training diverges: kept out of merges, and the end of a run that has no other."""

import math
import pathlib
import subprocess
import sys
import unittest

from job import DIVERGED, DONE, MpiTest

WHAT_HAPPENED = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "what-happened"

EXPLODING = {"train.optimizer": "sgd", "train.lr": 100, "train.clip": 0}


class Divergence(MpiTest):

    def what_happened(self, run):
        return subprocess.run([sys.executable, WHAT_HAPPENED, run.out], check=True, capture_output=True,
                              text=True).stdout

    def explode(self, learner, **options):
        """A run in which one learner explodes; its last loss on the validation text."""
        own = {f"learner.{learner}.{name}": value for name, value in {**EXPLODING, **options}.items()}
        # In a round of three the two others show what a usual change is, from the first round on.
        run = self.start(train__steps=300, sync__quorum=3, sync__outlier=10, **own)
        summary = run.finish(DONE)
        self.assertGreater(summary["dropped"]["diverged"], 0)
        self.assertIn(f"learner {learner} is unsound", run.log())
        self.assertIn("diverged", self.what_happened(run))
        self.assertEqual(summary["merged_share"] < 0.75, "of the learners' work was merged" in run.log())
        return summary["final_val_loss"]

    def test_one_of_three(self):
        # A thousandfold with the first step: nothing of it can pass for usual.
        self.assertLess(self.explode(2, **{"train.weight_decay": 100}), 4)  # 5.5 untrained

    def test_one_of_three_slowly(self):
        # What it does while its loss still passes for that of learning may count.
        self.assertLess(self.explode(2, **{"train.warmup": 200}), 2 * math.log(256))

    def test_all(self):
        run = self.start(train__steps=100_000, checkpoint__global_rounds=2, **EXPLODING)
        summary = run.finish(DIVERGED)
        self.assertEqual(summary["outcome"], "diverged")
        self.assertEqual(run.status()["state"], "failed")
        self.assertIn("diverged: every learner's loss", self.what_happened(run))

    def test_all_before_the_first_checkpoint(self):
        run = self.start(launch=True, train__steps=100_000, checkpoint__global_rounds=100_000, **EXPLODING)
        self.assertEqual(run.wait(), DIVERGED)
        self.assertEqual(list((run.out / "checkpoints").glob("global-*")), [])
        self.assertRegex(run.log().splitlines()[-1],
                         r"; try a lower train\.lr; there is no global checkpoint to go on from\Z")

    def test_all_of_data_parallel_training(self):
        run = self.start(launch=True, method="data-parallel", train__steps=100_000, sync__spares=None,
                         **EXPLODING)
        self.assertEqual(run.wait(), DIVERGED)
        self.assertEqual(run.summary()["outcome"], "diverged")
        self.assertEqual(list((run.out / "checkpoints").glob("*")), [])


if __name__ == "__main__":
    unittest.main()
