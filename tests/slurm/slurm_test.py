"""scripts/slurm/ against a real slurmctld and slurmd: what happens to a run when a rank is killed, when
Slurm warns before the time limit, when the job comes back from the queue, and when it is cancelled.

Waits for conditions, never for an amount of time; whatever takes longer than DEADLINE hangs.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
PROGRAM = os.environ["TEST_PROGRAM"]
DEADLINE = 240
SKIPPED = 77

# So long that no run is complete before its test is.
OPTIONS = {
    "model.layers": 1, "model.width": 32, "model.heads": 2, "model.context": 32,
    "train.batch": 4, "train.steps": 100_000_000, "train.validation": 1024,
    "sync.fragments": 4, "sync.interval": 4, "sync.refill": "false", "sync.outlier": 0,
}  # yapf: disable


def wait_for(condition, what):
    """The first true value of `condition`."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    raise AssertionError(f"waited in vain for {what}")


def write_data(path):
    text = path.with_suffix(".txt")
    words = random.Random(1)
    text.write_text(" ".join(words.choice(["island", "leader", "round", "syncer", "clock"])
                             for _ in range(20_000)))
    subprocess.run([PROGRAM, "prepare", "text", text, "--out", path], check=True,
                   stdout=subprocess.DEVNULL)


class Slurm(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="archipelago-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        write_data(cls.folder / "data.h5")
        cls.log = open(cls.folder / "cluster.log", "w+")
        cls.addClassCleanup(cls.log.close)
        cls.cluster = subprocess.Popen([HERE / "cluster", cls.folder / "slurm"], stdout=cls.log,
                                       stderr=subprocess.STDOUT)
        cls.addClassCleanup(cls.stop_cluster)
        os.environ["SLURM_CONF"] = str(cls.folder / "slurm" / "slurm.conf")
        wait_for(cls.cluster_is_ready, "the cluster")

    @classmethod
    def cluster_is_ready(cls):
        output = pathlib.Path(cls.log.name).read_text()
        if cls.cluster.poll() is not None:
            raise AssertionError(f"the cluster did not start:\n{output}")
        return "\nready\n" in output

    @classmethod
    def stop_cluster(cls):
        cls.cluster.send_signal(signal.SIGTERM)
        cls.cluster.wait()

    def submit(self, name, *flags, options=None):
        """Submits the shipped script; the job is cancelled at the end of the test."""
        self.run_folder = self.folder / name
        options = {**OPTIONS, "data.path": self.folder / "data.h5", "out": self.run_folder,
                   **(options or {})}
        command = ["sbatch", "--parsable", f"--output={self.folder}/{name}.log", *flags,
                   "scripts/slurm/one-node.sbatch"]
        command += [f"--{key}={value}" for key, value in options.items()]
        submitted = subprocess.run(command, cwd=PROJECT, env={**os.environ, "PROGRAM": PROGRAM},
                                   check=True, capture_output=True, text=True)
        self.job = submitted.stdout.strip()
        self.addCleanup(self.cancel)

    def cancel(self):
        subprocess.run(["scancel", self.job], check=True)
        wait_for(lambda: self.job_state() not in ("RUNNING", "COMPLETING", "PENDING"), "the end")

    def job_field(self, name):
        shown = subprocess.run(["scontrol", "show", "job", self.job], check=True,
                               capture_output=True, text=True).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word).get(name)

    def job_state(self):
        return self.job_field("JobState")

    def status(self):
        try:
            return json.loads((self.run_folder / "status.json").read_text())
        except FileNotFoundError:
            return None

    def wait_for_round(self, least):
        def reached():
            status = self.status()
            return status and status["state"] == "training" and status["round"] >= least and status

        return wait_for(reached, f"round {least}")

    def wait_for_requeue(self):
        """Until the job is back in the queue; Slurm would let it wait there for two minutes."""
        wait_for(lambda: self.job_field("Restarts") == "1" and self.job_state() == "PENDING",
                 "the requeue")
        self.start_soon()

    def start_soon(self):
        # slurmd refuses a job's credential that is no newer than the end of its life before.
        subprocess.run(["scontrol", "update", f"JobId={self.job}", "StartTime=now+10"], check=True)

    def summary(self):
        return json.loads((self.run_folder / "summary.json").read_text())

    def test_goes_on_after_a_kill_and_a_warning(self):
        self.submit("warned")
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
        self.submit("timed", "--time=2", "--signal=B:USR1@40")
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

    def test_does_not_come_back_when_cancelled(self):
        self.submit("cancelled")
        self.wait_for_round(20)
        self.cancel()
        self.assertEqual(self.job_state(), "CANCELLED")
        self.assertEqual(self.job_field("Restarts"), "0")

    def test_ends_when_training_is_complete(self):
        self.submit("complete", options={"train.steps": 50})
        wait_for(lambda: self.job_state() == "COMPLETED", "the end")
        self.assertEqual(self.job_field("Restarts"), "0")
        self.assertEqual(self.summary()["exit_code"], 0)

    def test_bad_options_do_not_come_back(self):
        self.submit("bad", options={"sync.quorum": 9})
        wait_for(lambda: self.job_state() == "FAILED", "the end")
        self.assertEqual(self.job_field("Restarts"), "0")
        self.assertEqual(self.job_field("ExitCode"), "78:0")


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(map(shutil.which, ("munged", "slurmctld", "slurmd"))):
        print("needs root and Slurm (scripts/setup slurm)")
        sys.exit(SKIPPED)
    unittest.main()
