"""scripts/slurm/one-node.sbatch against a real slurmctld and slurmd: what happens to a run when a rank is
killed, when Slurm warns before the time limit, when the job comes back from the queue, and when it is
cancelled."""

import os
import signal
import subprocess
import unittest

from slurm import SlurmTest, skip_unless_usable, wait_for


class OneNode(SlurmTest):

    def test_goes_on_after_a_kill_and_a_warning(self):
        self.submit("one-node.sbatch", "warned")
        status = self.wait_for_round(20)
        os.kill(status["learners"][1]["pids"][0], signal.SIGKILL)
        wait_for(lambda: self.status()["rejoins"] == 1, "the rejoin")
        subprocess.run(["scancel", "--signal=USR1", "--batch", self.job], check=True)
        self.wait_for_requeue()
        first = self.summary()
        self.assertEqual(first["exit_code"], 75)
        self.assertEqual(first["losses"], 1)
        again = self.wait_for_round(first["rounds"] + 20)
        self.assertGreater(again["tokens"], first["tokens"])

    def test_goes_on_after_the_time_limit(self):
        # Slurm counts in minutes and may warn a minute early: on a busy machine before the first round.
        self.submit("one-node.sbatch", "timed", "--time=2", "--signal=B:USR1@40")
        self.wait_for_requeue()
        first = self.summary()
        self.assertEqual(first["exit_code"], 75)

        hastened = {"1"}

        def goes_on():
            restart = self.job_field("Restarts")
            if self.job_state() == "PENDING" and restart not in hastened:
                hastened.add(restart)
                self.start_soon()
            return self.status()["round"] > first["rounds"]

        wait_for(goes_on, "a round of the next start")

    def test_a_guest_in_a_job_of_its_own(self):
        self.submit("one-node.sbatch", "joined", options={"sync.listen": "127.0.0.1:0"})
        self.wait_for_round(20)
        guest = self.sbatch("join.sbatch", self.folder / "guest.log", arguments=[self.run_folder])
        learners = lambda: {entry["id"]: entry["state"] for entry in self.status()["learners"]}
        wait_for(lambda: learners().get(3) == "active", "the guest")
        # Warned before its time limit it leaves, and goes back into the queue. Its place is gone with it:
        # the spare is for the run's own learners.
        subprocess.run(["scancel", "--signal=USR1", "--batch", guest], check=True)
        wait_for(lambda: learners() == {0: "active", 1: "active", 2: "active", None: "spare"}, "its leaving")
        wait_for(lambda: self.job_field("Restarts", guest) == "1", "the requeue")
        self.assertEqual(self.job_state(), "RUNNING")

    def test_does_not_come_back_when_cancelled(self):
        self.submit("one-node.sbatch", "cancelled")
        self.wait_for_round(20)
        self.cancel()
        self.assertEqual(self.job_state(), "CANCELLED")
        self.assertEqual(self.job_field("Restarts"), "0")

    def test_ends_when_training_is_complete(self):
        self.submit("one-node.sbatch", "complete", options={"train.steps": 50})
        wait_for(lambda: self.job_state() == "COMPLETED", "the end")
        self.assertEqual(self.job_field("Restarts"), "0")
        self.assertEqual(self.summary()["exit_code"], 0)

    def test_bad_options_do_not_come_back(self):
        self.submit("one-node.sbatch", "bad", options={"sync.quorum": 9})
        wait_for(lambda: self.job_state() == "FAILED", "the end")
        self.assertEqual(self.job_field("Restarts"), "0")
        self.assertEqual(self.job_field("ExitCode"), "78:0")


if __name__ == "__main__":
    skip_unless_usable()
    unittest.main()
