"""Learners that hang or are slow: left out, given up, welcomed back."""

import signal
import subprocess
import unittest

from job import DONE, ENDLESS, PROGRAM, TRY_AGAIN, MpiTest


class Silence(MpiTest):

    def test_stopped_and_back_in_time(self):
        run = self.start(train__steps=ENDLESS, sync__suspect=1, sync__expel=200)
        run.wait_until_training()
        pid = run.learner(1)["pids"][0]
        run.kill(pid, signal.SIGSTOP)
        run.wait_for("learner 1 was suspected", lambda: run.learner(1)["state"] == "suspect")
        rounds = run.status()["round"]
        run.wait_for("the others went on", lambda: run.status()["round"] > rounds + 8)
        # A busy machine may have let it fall silent before.
        warnings = lambda: [line for line in run.log().splitlines()
                            if "learner 1" in line and "has said nothing" in line]
        self.assertRegex(warnings()[-1], rf"WARN .*\(life 0, pid {pid} on \S+\) has said nothing for "
                         rf"\d+\.\d s, since step {run.learner(1)['step']};")
        run.kill(pid, signal.SIGCONT)
        run.wait_for_rejoin(1, 0)
        run.wait_for("that was told", lambda: "learner 1 (life 0) is heard of again" in run.log())
        self.assertEqual(run.learner(1)["pids"], [pid])
        run.stop()
        summary = run.finish(TRY_AGAIN)
        self.assertEqual((summary["losses"], summary["rejoins"]), (0, 0))
        self.assert_tokens_counted_once(run)
        for kind in ("silent", "heard_again"):
            told = [entry[kind] for entry in run.events() if kind in entry]
            self.assertEqual(sum(each["learner"] == 1 for each in told), len(warnings()), kind)
        replayed = subprocess.run([PROGRAM, "replay", run.out], capture_output=True, text=True)
        self.assertEqual(replayed.returncode, DONE, replayed.stderr)

    def test_expelled_and_back_as_a_spare(self):
        run = self.start(train__steps=ENDLESS, sync__suspect=1, sync__expel=2)
        run.wait_until_training()
        pid = run.learner(1)["pids"][0]
        run.kill(pid, signal.SIGSTOP)
        run.wait_for_rejoin(1, 1)
        self.assertNotEqual(run.learner(1)["pids"], [pid])
        run.kill(pid, signal.SIGCONT)
        reasons = lambda: [action["reason"] for action in run.actions("expel")]
        self.assertEqual(reasons(), ["no report for too long"])
        run.wait_for("it was a spare again",
                     lambda: [pid] in [spare["pids"] for spare in run.spares()])

        # And it can be called again.
        life = run.kill_learner(0)
        run.wait_for_rejoin(0, life + 1)
        self.assertEqual(run.learner(0)["pids"], [pid])
        run.stop()
        summary = run.finish(TRY_AGAIN)
        self.assertEqual((summary["losses"], summary["rejoins"]), (2, 2))
        self.assert_tokens_counted_once(run)

    def test_planned_slowness_and_stop(self):
        plan = "slow learner=0 step=50 factor=10 seconds=2; stop learner=1 step=60 seconds=0.5"
        run = self.start(train__steps=1500, chaos=plan)
        summary = run.finish(DONE)
        self.assertEqual((summary["losses"], summary["rejoins"]), (0, 0))
        faults = [entry["fault"] for entry in run.events() if "fault" in entry]
        self.assertEqual({(fault["kind"], fault["learner"]) for fault in faults},
                         {("slow", 0), ("stop", 1)})


if __name__ == "__main__":
    unittest.main()
