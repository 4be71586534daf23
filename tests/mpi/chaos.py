"""Each kind of planned fault on a job of real ranks: what it does is on the tape and in the summary."""

import subprocess
import unittest

from job import CONFIGURATION, DONE, ENDLESS, PROGRAM, TRY_AGAIN, MpiTest


class Chaos(MpiTest):

    def faults(self, run):
        return [entry["fault"] for entry in run.events() if "fault" in entry]

    def wait_for_faults(self, run, number):
        run.wait_for(f"{number} faults had happened", lambda: len(self.faults(run)) >= number)

    def wait_for_merge(self, run, learner, after):
        """Waits for a merge with something of the learner, later than so many seconds."""
        run.wait_for(f"learner {learner} was merged again", lambda: any(
            learner in row.get("contributors", []) and row["t"] > after for row in run.metrics()))

    def stop(self, run, losses):
        run.stop()
        summary = run.finish(TRY_AGAIN)
        self.assertEqual(summary["losses"], losses, run.log_end())
        self.assertEqual(summary["rejoins"], losses)
        self.assert_tokens_counted_once(run)
        return summary

    def time_of_fault(self, run):
        return next(entry["t"] for entry in run.events() if "fault" in entry) * 1e-9

    def test_lost_messages(self):
        run = self.start(train__steps=ENDLESS, sync__suspect=1, sync__expel=100,
                         chaos="drop learner=1 step=60 seconds=3")
        self.wait_for_faults(run, 1)
        run.wait_for("learner 1 was suspected", lambda: run.learner(1)["state"] == "suspect")
        self.wait_for_merge(run, 1, self.time_of_fault(run) + 3)
        # It gets what it has missed.
        self.stop(run, losses=0)

    def test_an_order_that_is_lost_is_given_again(self):
        run = self.start(train__steps=ENDLESS, sync__suspect=1, sync__expel=100,
                         chaos="drop learner=2 step=60 seconds=4")
        self.wait_for_faults(run, 1)
        said = subprocess.run([PROGRAM, "scale", str(run.out), "--learners", "2"],
                              capture_output=True, text=True)
        self.assertEqual(said.returncode, DONE, said.stderr)
        run.wait_for("its island was a spare", lambda: len(run.spares()) == 2)
        fault = self.time_of_fault(run)
        run.wait_for("the spare had heard of it", lambda: any(
            entry.get("event") == {"type": "island_ready", "island": 2}
            for entry in run.events() if entry.get("t", 0) * 1e-9 > fault))
        self.stop(run, losses=0)

    def test_a_damaged_fragment(self):
        run = self.start(train__steps=ENDLESS, chaos="corrupt learner=1 step=60")
        self.wait_for_faults(run, 1)
        self.wait_for_merge(run, 1, self.time_of_fault(run) + 1)
        summary = self.stop(run, losses=0)
        self.assertEqual(summary["refused"], 1)
        self.assertEqual(run.log().count("dropped a damaged fragment"), 1)

    def test_a_transfer_that_stands_still(self):
        run = self.start(train__steps=ENDLESS, sync__suspect=1, sync__expel=100,
                         chaos="stall learner=1 step=60 seconds=3")
        self.wait_for_faults(run, 1)
        rounds = run.status()["round"]
        run.wait_for("learner 1 was suspected", lambda: run.learner(1)["state"] == "suspect")
        run.wait_for("the others went on", lambda: run.status()["round"] > rounds + 4)
        self.wait_for_merge(run, 1, self.time_of_fault(run) + 3)
        self.stop(run, losses=0)

    def test_kills_at_the_worst_moments(self):
        plan = ("kill learner=1 step=60 when=transfer; kill learner=2 step=60 when=checkpoint; "
                "kill learner=0 step=200; kill learner=0 time=0 when=join")
        run = self.start(train__steps=ENDLESS, sync__spares=6, chaos=plan)
        self.wait_for_faults(run, 4)
        run.wait_for("all were back", lambda: run.status()["losses"] == 4 and run.all_active())
        self.assertEqual({fault["when"] for fault in self.faults(run)},
                         {"transfer", "checkpoint", "any", "join"})
        run.stop()
        summary = run.finish(TRY_AGAIN)
        self.assertEqual(summary["losses"], 4)
        # What was being written when its writer was killed has no name and is not used.
        leftovers = list((run.out / "checkpoints").glob(".*tmp"))
        self.assertTrue(leftovers)
        self.resume(run, train__steps=max(row["step"] for row in run.metrics() if "step" in row)
                    + 50, chaos="slow learner=0 time=100000").finish(DONE)

    def test_a_fault_that_has_struck_strikes_no_more(self):
        run = self.start(train__steps=ENDLESS, chaos="kill learner=1 step=60")
        self.wait_for_faults(run, 1)
        run.wait_for("learner 1 was back", lambda: run.status()["rejoins"] == 1)
        run.stop()
        run.finish(TRY_AGAIN)
        steps = max(row["step"] for row in run.metrics() if row.get("learner") == 1)
        again = self.resume(run)
        again.wait_for("learner 1 had trained on", lambda: max(
            row["step"] for row in again.metrics() if row.get("learner") == 1) > steps + 100)
        self.assertEqual(len(self.faults(again)), 1)
        again.stop()
        self.assertEqual(again.finish(TRY_AGAIN)["losses"], 0)

    def test_two_at_once(self):
        run = self.start(train__steps=ENDLESS, sync__spares=2,
                         chaos="kill learner=any time=1 victims=2")
        self.wait_for_faults(run, 2)
        first, second = self.faults(run)
        self.assertNotEqual(first["learner"], second["learner"])
        run.wait_for("both were back", lambda: run.status()["rejoins"] == 2)
        self.stop(run, losses=2)

    def test_full_disk_for_a_while(self):
        # Long enough for a checkpoint to come due on any machine.
        run = self.start(train__steps=ENDLESS, checkpoint__global_rounds=2,
                         chaos="fill time=1 seconds=15")
        self.wait_for_faults(run, 1)
        run.wait_for("checkpoints failed",
                     lambda: "could not write the global checkpoint" in run.log())
        self.assertIn("No space left", run.log())
        newest = lambda: max((run.out / "checkpoints").glob("global-*"), default=None)
        before = newest()
        run.wait_for("the disk had room again", lambda: newest() != before)
        summary = self.stop(run, losses=0)
        self.assertGreater(summary["checkpoint_failures"], 0)

    def test_full_disk_at_the_end(self):
        # What was trained is in no file: the run must not look complete.
        run = self.start(train__steps=200, chaos="fill time=0 seconds=100000")
        summary = run.finish(CONFIGURATION)
        self.assertEqual((summary["outcome"], run.status()["state"]), ("failed", "failed"))
        self.assertIn("the last global checkpoint could not be written", summary["reason"])
        self.resume(run, train__steps=60, chaos="slow learner=0 time=100000").finish(DONE)


if __name__ == "__main__":
    unittest.main()
