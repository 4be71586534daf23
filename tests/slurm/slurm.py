"""What the tests of scripts/slurm/ share: a Slurm for as long as the tests take, and a job in it.

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


def skip_unless_usable():
    if os.geteuid() != 0 or not all(map(shutil.which, ("munged", "slurmctld", "slurmd"))):
        print("needs root and Slurm (scripts/setup slurm)")
        sys.exit(SKIPPED)


class SlurmTest(unittest.TestCase):
    NODES = ()  # for `cluster`; none: this machine is the only node

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="archipelago-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        write_data(cls.folder / "data.h5")
        cls.log = open(cls.folder / "cluster.log", "w+")
        cls.addClassCleanup(cls.log.close)
        cls.cluster = subprocess.Popen([HERE / "cluster", cls.folder / "slurm", *cls.NODES],
                                       stdout=cls.log, stderr=subprocess.STDOUT)
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

    def submit(self, script, name, *flags, options=()):
        """Submits the shipped script; the job is cancelled at the end of the test."""
        self.run_folder = self.folder / name
        self.log_path = self.folder / f"{name}.log"
        options = {**OPTIONS, "data.path": self.folder / "data.h5", "out": self.run_folder,
                   **dict(options)}
        self.job = self.sbatch(script, self.log_path, *flags,
                               arguments=[f"--{key}={value}" for key, value in options.items()])

    def sbatch(self, script, log, *flags, arguments=()):
        """The job's id."""
        command = ["sbatch", "--parsable", f"--output={log}", *flags, f"scripts/slurm/{script}",
                   *map(str, arguments)]
        submitted = subprocess.run(command, cwd=PROJECT, env={**os.environ, "PROGRAM": PROGRAM},
                                   check=True, capture_output=True, text=True)
        job = submitted.stdout.strip()
        self.addCleanup(self.cancel, job)
        return job

    def cancel(self, job=None):
        subprocess.run(["scancel", job or self.job], check=True)
        wait_for(lambda: self.job_state(job) not in ("RUNNING", "COMPLETING", "PENDING"), "the end")

    def job_field(self, name, job=None):
        shown = subprocess.run(["scontrol", "show", "job", job or self.job], check=True,
                               capture_output=True, text=True).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word).get(name)

    def job_state(self, job=None):
        return self.job_field("JobState", job)

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
