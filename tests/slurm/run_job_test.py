"""scripts/slurm/run-job with a launcher that ends in some way, without Slurm."""

import os
import pathlib
import subprocess
import tempfile
import unittest

RUN_JOB = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "slurm" / "run-job"


class RunJob(unittest.TestCase):

    def run_job(self, launcher, **environment):
        """run-job's exit code where `launch` is the script."""
        return self.run_in_slurm(launcher, **environment)[0]

    def run_in_slurm(self, launcher, arguments=("--out", "run"), **environment):
        """The same, and what `scontrol` was called with."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text("#!/bin/sh\n" + launcher)
            program.chmod(0o755)
            calls = pathlib.Path(folder) / "calls"
            scontrol = pathlib.Path(folder) / "scontrol"
            scontrol.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
            scontrol.chmod(0o755)
            kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
            path = f"{folder}:{os.environ['PATH']}"
            code = subprocess.run(
                [RUN_JOB, *arguments], timeout=60, capture_output=True,
                env={**kept, "PATH": path, "PROGRAM": str(program), **environment}).returncode
            return code, calls.read_text() if calls.exists() else ""

    def test_it_ends_as_its_launcher_does(self):
        for code in (0, 64, 75):
            self.assertEqual(self.run_job(f"exit {code}"), code)

    def test_a_job_that_is_not_complete_goes_back_into_the_queue(self):
        self.assertEqual(self.run_in_slurm("exit 75", SLURM_JOB_ID="7"), (75, "requeue 7\n"))
        self.assertEqual(self.run_in_slurm("exit 0", SLURM_JOB_ID="7"), (0, ""))

    def test_one_that_was_stopped_by_its_file_does_not(self):
        stopped = '[ "$1 $2" = "launch --stop-code" ] && exit "$3"; exit 1'
        self.assertEqual(self.run_in_slurm(stopped, SLURM_JOB_ID="7"), (75, ""))

    def test_a_guest(self):
        join = ("join", "run", "--ranks", "2")
        called = '[ "$*" = "join run --ranks 2" ] || exit 1; '
        self.assertEqual(self.run_in_slurm(called + "exit 75", join, SLURM_JOB_ID="7"), (75, ""))
        warned = called + "trap 'exit 75' USR1; kill -USR1 $PPID; while :; do sleep 0.1; done"
        self.assertEqual(self.run_in_slurm(warned, join, SLURM_JOB_ID="7"), (75, "requeue 7\n"))

    def test_it_ends_when_its_launcher_is_killed(self):
        self.assertEqual(self.run_job("kill -9 $$"), 128 + 9)

    def test_a_signal_is_handed_on(self):
        # The launcher has the signal sent to its parent, which hands it on.
        self.assertEqual(self.run_job("trap 'exit 75' USR1; kill -USR1 $PPID; while :; do sleep 0.1; done"), 75)

    def test_a_warning_that_came_before_the_launcher_took_signals(self):
        warned = "kill -USR1 $PPID; while :; do sleep 0.1; done"
        self.assertEqual(self.run_in_slurm(warned, SLURM_JOB_ID="7"), (75, "requeue 7\n"))
        cancelled = "kill -TERM $PPID; while :; do sleep 0.1; done"
        self.assertEqual(self.run_in_slurm(cancelled, SLURM_JOB_ID="7"), (75, ""))

    def test_a_launcher_that_somebody_else_ended_with_that_signal(self):
        self.assertEqual(self.run_in_slurm("kill -USR1 $$", SLURM_JOB_ID="7"), (128 + 10, ""))


if __name__ == "__main__":
    unittest.main()
