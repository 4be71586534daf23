"""`archipelago emulate` as a user calls it: how it ends, what it leaves, and which commands know it."""

import json
import pathlib
import resource
import signal
import subprocess
import sys
import time
import unittest

from command import (BAD_DATA, CONFIGURATION, DIVERGED, DONE, PROGRAM, TRY_AGAIN, USAGE, CommandTest,
                     run)

WHAT_HAPPENED = pathlib.Path(__file__).parents[2] / "scripts/what-happened"


class Emulation(CommandTest):

    def emulation(self, *more, width=16):
        """A short one of a tiny model, but for where to."""
        data = self.folder / "text.h5"
        if not data.exists():
            (self.folder / "text.txt").write_text("In the beginning God created the heaven and the earth. " * 40)
            self.assertEqual(run("prepare", "text", self.folder / "text.txt", "--out", data).returncode, DONE)
        return ["emulate", "--data.path", data, "--model.layers", "1", "--model.width", width, "--model.heads", "2",
                "--model.context", "8", "--train.batch", "2", "--sync.learners", "2", *more]

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())

    def test_an_emulation_is_a_run_in_words(self):
        words = self.emulation("--train.steps", "60", "--train.step_seconds", "1,2",
                               "--chaos", "kill learner=1 time=20", "--failure.return_seconds", "5")
        data = self.folder / "text.h5"
        summaries = []
        for name in ("first", "second"):
            result = run(*words, "--out", self.folder / name)
            self.assertEqual(result.returncode, DONE, result.stderr)
            for word in ("outcome            complete: all tokens", "validation loss", "were merged",
                         "losses, rejoins    1, 1", "virtual time"):
                self.assertIn(word, result.stdout)
            summaries.append(self.summary(name))
        self.assertEqual(summaries[0], summaries[1])
        self.assertEqual(summaries[0]["outcome"], "complete")
        self.assertEqual(run("replay", self.folder / "first").returncode, DONE)
        self.assert_refused(CONFIGURATION, ["another folder"], *words, "--out", self.folder / "first")
        self.assert_refused(CONFIGURATION, ["emulated", "another folder"], "launch", "--", "--resume",
                            "--out", self.folder / "first")
        for command in ("watch", "what-happened"):
            self.assertIn("of virtual time", self.tell(command, "first"))
        self.assertIn("counted again after", self.tell("what-happened", "first"))
        self.assert_refused(CONFIGURATION, ["emulate:", "sync.ranks_per_learner", "sync.standby", "sync.listen"], *words,
                            "--sync.standby", "1", "--sync.ranks_per_learner", "2", "--sync.listen", "h:1",
                            "--out", self.folder / "third")
        self.assert_refused(USAGE, ["--train.step_second", "--train.step_seconds"], "emulate", "--data.path", data,
                            "--out", self.folder / "third", "--train.step_second", "1")
        self.assert_refused(USAGE, ["--out"], "emulate", "--data.path", data)
        self.assertFalse((self.folder / "third").exists())

    def tell(self, command, name):
        """What watch or scripts/what-happened says of a run."""
        words = [PROGRAM, command] if command == "watch" else [sys.executable, WHAT_HAPPENED]
        result = subprocess.run([*words, self.folder / name], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (DONE, ""))
        return result.stdout

    def status(self, name):
        path = self.folder / name / "status.json"
        return json.loads(path.read_text()) if path.exists() else {"tokens": 0}

    def test_an_emulation_that_is_ended_early(self):
        for method, ask, reason in (
                ("decoupled", lambda one: (self.folder / "decoupled/stop").touch(), "the file stop"),
                ("data-parallel", lambda one: one.send_signal(signal.SIGTERM), "signal 15")):
            words = self.emulation("--method", method, "--train.steps", "1000000", "--out", self.folder / method)
            one = subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, text=True)
            self.addCleanup(one.wait)
            self.addCleanup(one.kill)
            while not self.status(method)["tokens"]:
                self.assertIsNone(one.poll())
                time.sleep(0.05)
            self.assertIn("of virtual time", self.tell("watch", method))
            self.assertIn("has not ended yet (training, virtual second ", self.tell("what-happened", method))
            self.assert_refused(CONFIGURATION, ["emulated"], "scale", self.folder / method, "--learners", "1")
            ask(one)
            self.assertIn(f"outcome            stopped: {reason}\n", one.communicate()[0])
            self.assertEqual(one.returncode, TRY_AGAIN)
            self.assertEqual((self.summary(method)["outcome"], self.summary(method)["reason"]), ("stopped", reason))
            self.assertEqual(self.status(method)["state"], "stopped")
            self.assertEqual(run("evaluate", self.folder / method, "--data", self.folder / "text.h5").returncode, DONE)
        for command in (["replay"], ["simulate", "--from"]):
            self.assert_refused(BAD_DATA, ["without a syncer"], *command,
                                self.folder / "data-parallel")
        self.assert_refused(CONFIGURATION, ["record"], *self.emulation("--method", "data-parallel"), "--record",
                            "fragments", "--out", self.folder / "third")

    def test_an_emulation_that_diverges(self):
        result = run(*self.emulation("--train.steps", "200", "--train.lr", "100", "--train.warmup", "0"),
                     "--out", self.folder / "run")
        self.assertEqual(result.returncode, DIVERGED, result.stderr)
        self.assertIn("outcome            diverged: every learner's loss", result.stdout)
        summary = self.summary("run")
        self.assertEqual((summary["outcome"], summary["exit_code"]), ("diverged", DIVERGED))
        self.assertEqual(self.status("run")["state"], "failed")
        self.assertEqual(list((self.folder / "run/checkpoints").iterdir()), [])

    def test_an_emulation_whose_checkpoint_finds_no_room(self):
        # Of this size no file may be (signals are as this process has them: none for that).
        room = 1 << 18
        for method in ("decoupled", "data-parallel"):
            words = self.emulation("--train.steps", "3", "--method", method, width=128)
            result = subprocess.run(
                [PROGRAM, *map(str, words), "--out", self.folder / method], capture_output=True, text=True,
                restore_signals=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))
            self.assertEqual(result.returncode, CONFIGURATION, result.stderr)
            self.assertIn("outcome            failed: the last global checkpoint could not be written", result.stdout)
            self.assertIn("validation loss", result.stdout)
            self.assertEqual(self.summary(method)["outcome"], "failed")
            self.assertEqual(self.status(method)["state"], "failed")


if __name__ == "__main__":
    unittest.main()
