"""Bad input to a job: it ends at once on all ranks with one clear line and the right exit code, and
leaves what was there as it was."""

import os
import pathlib
import shutil
import signal
import struct
import subprocess
import unittest

from job import (BAD_DATA, CONFIGURATION, DONE, ENDLESS, PROGRAM, TINY, TRY_AGAIN, USAGE,
                 MpiTest)


class Refusals(MpiTest):

    def assert_refused(self, job, exit_code, *words):
        """`words` stand in the one line that the job says."""
        code = job.wait()
        log = job.log()
        own = [line for line in log.splitlines() if "archipelago:" in line or " ERROR " in line]
        self.assertEqual(len(own), 1, log)
        for word in words:
            self.assertIn(word, own[0])
        self.assertNotIn("Traceback", log)
        self.assertNotIn("terminate called", log)
        self.assertEqual(code, exit_code, log)
        self.assertIsNone(job.summary())

    def small(self, *flags, **options):
        return self.start(*flags, **{"sync__learners": 2, "sync__spares": 0, **options})

    def test_options(self):
        self.assert_refused(self.small("--train.stepz=5"), USAGE, "train.stepz", "train.steps")
        self.assert_refused(self.small(train__lr=-1), USAGE, "train.lr", "-1")
        self.assert_refused(self.small(model__width=65536, model__layers=1000), CONFIGURATION,
                            "largest tensor", "make it smaller")
        self.assert_refused(self.small(model__width=33), CONFIGURATION, "model.width",
                            "model.heads")
        self.assert_refused(self.small(chaos="kill learner=one step=3"), CONFIGURATION, "chaos",
                            "learner=one")
        self.assert_refused(self.small(chaos="kill learner=2 step=3"), CONFIGURATION, "chaos",
                            "learner 2")
        self.assertFalse(self.run_folder().exists())

    def test_no_gpu(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is a GPU")
        self.assert_refused(self.small(device="cuda"), CONFIGURATION, "--device cuda",
                            "--device cpu")
        self.assertFalse(self.run_folder().exists())

    def test_world_size(self):
        self.assert_refused(self.small(ranks=4), CONFIGURATION, "4 ranks", "need 3")
        self.assertFalse(self.run_folder().exists())

    def test_fault_tolerance_switched_off(self):
        self.assert_refused(self.small(mpirun=()), CONFIGURATION, "--with-ft ulfm")
        self.assertFalse(self.run_folder().exists())

    def test_a_rank_with_other_options_or_data(self):
        def second_part(**changes):
            options = {**TINY, "data.path": self.data, "out": self.run_folder(),
                       "sync.learners": 2, "sync.spares": 0, **changes}
            return [":", "-n", "1", PROGRAM, "train",
                    *(f"--{name}={value}" for name, value in options.items())]

        other = self.small(*second_part(**{"train.lr": 0.5}), ranks=2)
        self.assert_refused(other, CONFIGURATION, "rank 2", "train.lr is 0.5 here and 0.003")
        both = second_part(**{"train.lr": 0.5, "sync.interval": 5})
        self.assert_refused(self.small(*both, ranks=2), CONFIGURATION, "sync.interval is 5 here",
                            "1 more")
        foreign = second_part(**{"data.path": self.prepare("other.h5", seed=2)})
        self.assert_refused(self.small(*foreign, ranks=2), CONFIGURATION, "data.path")
        self.assertFalse(self.run_folder().exists())

    def another_build(self, name):
        """A program that does the same, but was built from something else."""
        mark = struct.pack("<III4s", 4, 20, 3, b"GNU\0")  # of the note that holds the build's id
        content = bytearray(pathlib.Path(PROGRAM).read_bytes())
        self.assertEqual(content.count(mark), 1)
        content[content.index(mark) + len(mark)] ^= 1
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o755)
        return path

    def test_a_rank_of_another_build(self):
        options = {**TINY, "data.path": self.data, "out": self.run_folder(), "sync.learners": 2,
                   "sync.spares": 0}
        second = [":", "-n", "1", self.another_build("other"), "train",
                  *(f"--{name}={value}" for name, value in options.items())]
        self.assert_refused(self.small(*second, ranks=2), CONFIGURATION, "rank 2", "build is",
                            "the same program")
        self.assertFalse(self.run_folder().exists())

    def test_a_spawned_spare_of_another_build(self):
        program = self.folder / "archipelago"
        shutil.copy(PROGRAM, program)
        run = self.start(program=program, train__steps=ENDLESS, sync__learners=2, sync__spares=0,
                         sync__refill=1)
        run.wait_until_training()
        self.another_build("other").replace(program)
        run.kill_learner(1)
        run.wait_for("the spare was turned away",
                     lambda: "no more spares are started" in run.log())
        lines = [line for line in run.log().splitlines() if "turned away" in line]
        self.assertEqual(len(lines), 1, run.log())
        self.assertIn("build is", lines[0])
        run.stop()
        run.finish(TRY_AGAIN)

    def test_a_spawned_spare_with_other_data(self):
        run = self.start(train__steps=ENDLESS, sync__learners=2, sync__spares=0, sync__refill=1)
        run.wait_until_training()
        self.prepare("other.h5", seed=2).replace(self.data)
        run.kill_learner(1)
        run.wait_for("the spare was turned away",
                     lambda: "no more spares are started" in run.log())
        lines = [line for line in run.log().splitlines() if "turned away" in line]
        self.assertEqual(len(lines), 1, run.log())
        self.assertIn(f"digest of {self.data}", lines[0])
        step = run.learner(0)["step"]
        run.wait_for("the other went on", lambda: run.learner(0)["step"] > step + 10)
        run.stop()
        run.finish(TRY_AGAIN)

    def test_data(self):
        missing = self.folder / "missing.h5"
        self.assert_refused(self.small(data__path=missing), BAD_DATA, str(missing))
        self.assert_refused(self.small(model__vocabulary=200), BAD_DATA, "model.vocabulary",
                            "256")
        self.assert_refused(self.small(model__context=100_000), BAD_DATA, "model.context",
                            "100000")
        cut = self.folder / "cut.h5"
        cut.write_bytes(self.data.read_bytes()[:20000])
        self.assert_refused(self.small(data__path=cut), BAD_DATA, str(cut))
        self.assertFalse(self.run_folder().exists())

    @unittest.skipUnless(os.geteuid() == 0 or os.access("/proc", os.R_OK), "needs /proc")
    def test_folder_that_cannot_be_written(self):
        # Not even root can make one there.
        self.assert_refused(self.small(out="/proc/archipelago"), CONFIGURATION,
                            "--out /proc/archipelago")
        taken = self.folder / "taken"
        taken.write_text("a file\n")
        self.assert_refused(self.small(out=taken), CONFIGURATION, str(taken))
        self.assertEqual(taken.read_text(), "a file\n")

    def contents(self, folder):
        """Everything but the lock, whose content names its last owner."""
        return {path: path.read_bytes() for path in folder.rglob("*")
                if path.is_file() and path.name != ".lock"}

    def finished_run(self):
        run = self.small(train__steps=60)
        run.finish(DONE)
        return run

    def test_checkpoints(self):
        run = self.finished_run()
        # A second end is sure to leave a second global checkpoint.
        self.resume(run, train__steps=120).finish(DONE)
        before = self.contents(run.out)

        other_model = self.resume(run, model__width=64)
        self.assert_refused(other_model, BAD_DATA, "wte.weight")
        other_fragments = self.resume(run, sync__fragments=3)
        self.assert_refused(other_fragments, BAD_DATA, "fragments")
        other_words = self.resume(run, model__vocabulary=300)
        self.assert_refused(other_words, BAD_DATA, "wte.weight")
        other_heads = self.resume(run, model__heads=1)
        self.assert_refused(other_heads, BAD_DATA, "model.heads")
        fewer_steps = self.resume(run, train__steps=30)
        self.assert_refused(fewer_steps, CONFIGURATION, "nothing is left to train")
        self.assertEqual(self.contents(run.out), before)

        # The newest cut off: it is named, and the one before it used.
        checkpoints = sorted((run.out / "checkpoints").glob("global-*"))
        self.assertGreater(len(checkpoints), 1)
        checkpoints[-1].write_bytes(checkpoints[-1].read_bytes()[:5000])
        again = self.resume(run, train__steps=120)
        again.finish(DONE)
        self.assertIn(checkpoints[-1].name, again.log())
        self.assertIn(f"goes on from round {int(checkpoints[-2].stem[7:])}", again.log())

        # All of them: a run must not silently begin anew over its own past.
        for path in (run.out / "checkpoints").glob("global-*"):
            path.write_bytes(path.read_bytes()[:5000])
        before = self.contents(run.out)
        self.assert_refused(self.resume(run), BAD_DATA, "checkpoints")
        self.assertEqual(self.contents(run.out), before)

    def test_resume_of_nothing(self):
        # So that a script may always say --resume; but a folder's name may be misspelt.
        self.small(train__steps=60).finish(DONE)
        run = self.small("--resume", train__steps=60, out=self.folder / "rum")
        run.finish(DONE)
        self.assert_warned_once(run, f"{run.out} holds no run; training begins anew")

        for path in (run.out / "checkpoints").glob("global-*"):
            path.unlink()
        again = self.resume(run, train__steps=120)
        again.finish(DONE)
        self.assert_warned_once(again, f"{run.out} holds a run, but no global checkpoint")

    def assert_warned_once(self, job, words):
        warnings = [line for line in job.log().splitlines() if " WARN " in line and "--resume" in line]
        self.assertEqual(len(warnings), 1, job.log())
        self.assertIn(words, warnings[0])

    def small_disk(self, kib):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", disk],
                                 capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("needs the right to mount")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        return disk

    def test_full_disk(self):
        disk = self.small_disk(1024)
        filler = disk / "filler"
        self.assertNotEqual(
            subprocess.run(["dd", "if=/dev/zero", f"of={filler}"], capture_output=True).returncode, 0)
        full = self.small(out=disk / "run")
        self.assert_refused(full, CONFIGURATION, "No space left")
        filler.unlink()

        # Full only later: the run goes on, says so, and the last good checkpoints stay.
        run = self.small(out=disk / "run2", train__steps=ENDLESS, checkpoint__learner_steps=ENDLESS)
        run.wait_for("it was said at the start", lambda: "the checkpoints will take up to" in run.log())
        failures = lambda: run.log().count("could not write the global checkpoint")
        run.wait_for("checkpoints failed", lambda: failures() > 0)
        failed = failures()
        run.wait_for("later rounds were merged", lambda: failures() > failed + 2)
        run.kill(run.status()["syncer"]["pid"], signal.SIGTERM)
        self.assertEqual(run.wait(), TRY_AGAIN)
        saved = sorted((disk / "run2" / "checkpoints").glob("global-*.h5"))
        self.assertTrue(saved)
        kept = self.folder / "kept"
        shutil.copytree(disk / "run2", kept)
        again = self.resume(run, out=kept, train__steps=60)
        again.finish(DONE)


if __name__ == "__main__":
    unittest.main()
