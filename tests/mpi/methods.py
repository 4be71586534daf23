"""The methods without a syncer, with real ranks: their records, what they compute, and how they end."""

import math
import subprocess
import unittest

import job
from job import BATCH_TOKENS, CONFIGURATION, DONE, INTERNAL, PROGRAM, TRY_AGAIN, MpiTest
from plain_run import ROUND_ROW, STATUS, STATUS_LEARNER, SUMMARY, checked_rows

METHODS = ("data-parallel", "diloco", "streaming-diloco")
STEPS = 60


class Methods(MpiTest):

    def start_method(self, method, **options):
        options = {"train__steps": STEPS, **options}
        learners = options.get("sync__learners", job.TINY["sync.learners"])
        ranks = options.get("sync__ranks_per_learner", 1)
        return self.start(method=method, out=self.folder / f"run{len(self.jobs)}",
                          ranks=learners * ranks, **options)

    def distance(self, one, other):
        """Of all parameters, as a share of their norm."""
        squares = {"difference": 0.0, "norm": 0.0}
        for name, values in one.items():
            for a, b in zip(values, other[name], strict=True):
                squares["difference"] += (a - b)**2
                squares["norm"] += b * b
        return math.sqrt(squares["difference"] / squares["norm"])

    def check_records(self, run):
        summary = run.finish(DONE)
        learners = run.option("sync.learners")
        self.assertEqual(set(summary), SUMMARY)
        self.assertEqual(summary["outcome"], "complete")
        self.assertEqual(summary["tokens"], STEPS * learners * BATCH_TOKENS)
        self.assertLess(summary["final_val_loss"], 5)
        steps, rounds = checked_rows(self, run)
        for row in steps:
            self.assertEqual(row["tokens"], row["step"] * BATCH_TOKENS)
        for number, row in enumerate(rounds, 1):
            self.assertEqual(set(row), ROUND_ROW)
            self.assertEqual(row["round"], number)
            self.assertEqual(row["contributors"], list(range(learners)))
        self.assertEqual(len(rounds), summary["rounds"])
        self.assertEqual({row["learner"]: row["step"] for row in steps},
                         dict.fromkeys(range(learners), STEPS))
        self.assertLess(summary["final_train_loss"], 0.8 * steps[0]["loss"])
        status = run.status()
        # These methods' learners are as many all the time.
        self.assertEqual(set(status), STATUS - {"learners_wanted", "scale"})
        for learner in status["learners"]:
            self.assertEqual(set(learner), STATUS_LEARNER)
            self.assertEqual((learner["state"], learner["pids"]), ("ended", []))
        return summary

    def exchanged(self, run, times):
        """Bytes that all learners together send, and receive, to average all parameters so often."""
        learners = run.option("sync.learners")
        elements = sum(len(values) for values in self.parameters(run).values())
        return times * 2 * (learners - 1) * elements * 4

    def test_records_and_bytes(self):
        for method in METHODS:
            with self.subTest(method):
                run = self.start_method(method)
                summary = self.check_records(run)
                self.assertEqual(summary["bytes_up"], summary["bytes_down"])
                if method == "data-parallel":
                    self.assertEqual(summary["rounds"], 0)
                    self.assertEqual(summary["bytes_up"], self.exchanged(run, STEPS))
                elif method == "diloco":
                    times = STEPS // run.option("sync.interval")
                    self.assertEqual(summary["rounds"], times)
                    self.assertEqual(summary["bytes_up"], self.exchanged(run, times))
                else:
                    self.assertGreaterEqual(summary["rounds"], STEPS)

    def test_islands_of_two_ranks(self):
        for method in METHODS:
            with self.subTest(method):
                self.check_records(
                    self.start_method(method, sync__learners=2, sync__ranks_per_learner=2))

    def test_data_parallel_is_one_learner_with_the_whole_batch(self):
        batch = job.TINY["train.batch"]
        # Few steps and no large ones: rounding differs, and training makes more of it.
        options = {"train__steps": 12, "train__warmup": 12}
        together = self.start_method("data-parallel", **options)
        together.finish(DONE)
        alone = self.start_method("data-parallel", sync__learners=1, train__batch=3 * batch, **options)
        alone.finish(DONE)
        part = self.start_method("data-parallel", sync__learners=1, **options)
        part.finish(DONE)
        expected = self.parameters(alone)
        self.assertLess(self.distance(self.parameters(together), expected), 1e-4)
        self.assertGreater(self.distance(self.parameters(part), expected), 1e-2)

    def test_a_stop_is_heeded(self):
        for method in METHODS:
            with self.subTest(method):
                run = self.start_method(method, train__steps=job.ENDLESS)
                run.wait_for("training", lambda: run.metrics())
                run.stop()
                summary = run.finish(TRY_AGAIN)
                self.assertEqual(summary["outcome"], "stopped")
                self.assertLess(summary["tokens"], job.ENDLESS * BATCH_TOKENS)

    def test_a_death_ends_the_run(self):
        for method in METHODS:
            with self.subTest(method):
                run = self.start_method(method, train__steps=job.ENDLESS)
                run.wait_for("training", lambda: run.metrics())
                run.kill(run.status()["learners"][1]["pids"][0])
                summary = run.finish(INTERNAL)
                self.assertEqual(summary["outcome"], "failed")
                self.assertIn("died", summary["reason"])
                run.wait_for("the status told it", lambda: run.status()["state"] == "failed")

    def test_what_needs_a_syncer_is_refused(self):
        for option in ("--resume", "--chaos=kill learner=1 step=3"):
            done = subprocess.run(
                [PROGRAM, "launch", "--print", "--", "--method=diloco", f"--data.path={self.data}",
                 f"--out={self.run_folder()}", option], capture_output=True, text=True)
            self.assertEqual(done.returncode, CONFIGURATION)
            self.assertIn("method (diloco)", done.stderr)


if __name__ == "__main__":
    unittest.main()
