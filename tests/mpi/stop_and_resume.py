"""Ending early and going on: by a file, by signals, by the syncer's death."""

import pathlib
import signal
import time
import unittest

from job import BATCH_TOKENS, CONFIGURATION, DONE, ENDLESS, TRY_AGAIN, MpiTest, children


class StopAndResume(MpiTest):

    def begin(self, **options):
        run = self.start(train__steps=ENDLESS, sync__spares=0, **options)
        run.wait_until_training()
        run.wait_for("there was a global checkpoint",
                     lambda: any((run.out / "checkpoints").glob("global-*.h5")))
        return run

    def go_on(self, run):
        """Resumes the run and lets it complete; each learner's data goes on where what the syncer
        had merged of it ends."""
        before = run.events()
        steps = {}
        for row in run.metrics():
            if "learner" in row:
                steps[row["learner"]] = row["step"]
        goal = max(steps.values()) + 200
        again = self.resume(run, train__steps=goal)
        summary = again.finish(DONE)
        self.assertRegex(again.log(), r"goes on from round (\d+): global-0*\1\.h5, written .* ago\n")
        self.assertIn(f"have changed since: train.steps {run.option('train.steps')} -> {goal}\n",
                      again.log())
        budget = goal * run.option("sync.learners") * BATCH_TOKENS
        self.assertGreaterEqual(summary["tokens"], budget)
        # Each learner may be a few steps beyond when the end is announced, never a whole life.
        self.assertLess(summary["tokens"], 1.5 * budget)

        tape = again.events()[len(before):]
        restored = tape[0]["restored"]
        learners, fragments = run.option("sync.learners"), run.option("sync.fragments")
        self.assertEqual(len(restored["versions"]), fragments)
        begins = {action["learner"]: action for entry in tape
                  for action in entry.get("actions", []) if action["type"] == "assign"}
        for learner in range(learners):
            merged = restored["merged_tokens"][learner * fragments:(learner + 1) * fragments]
            mean = sum(merged) // fragments
            self.assertEqual(begins[learner]["tokens"], mean - mean % BATCH_TOKENS)
            self.assertGreater(begins[learner]["incarnation"], restored["incarnations"][learner] - 1)
        self.assertGreater(sum(action["tokens"] for action in begins.values()), 0)
        self.assert_tokens_counted_once(again)
        return summary

    def test_stop_file(self):
        run = self.begin()
        run.stop()
        summary = run.finish(TRY_AGAIN)
        self.assertEqual((summary["outcome"], summary["reason"]), ("stopped", "the file stop"))
        self.assertFalse((run.out / "stop").exists())
        self.assertEqual(run.status()["state"], "stopped")
        self.assertEqual([entry["pids"] for entry in run.status()["learners"]],
                         [[]] * run.option("sync.learners"))

        # Not by accident over what is there.
        files = self.contents(run.out)
        second = self.start()
        self.assertEqual(second.wait(), CONFIGURATION)
        self.assertIn("--resume", second.log())
        self.assertEqual(self.contents(run.out), files)

        self.go_on(run)

    def contents(self, folder):
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def test_signals(self):
        for number, out in ((signal.SIGTERM, "term"), (signal.SIGUSR1, "usr1")):
            with self.subTest(signal=number):
                run = self.begin(out=self.folder / out)
                run.kill(run.status()["syncer"]["pid"], number)
                summary = run.finish(TRY_AGAIN)
                self.assertEqual(summary["reason"], f"signal {int(number)}")
        self.go_on(run)

    def test_death_of_the_only_syncer(self):
        run = self.begin()
        rows = {row["learner"]: row["step"] for row in run.metrics() if "learner" in row}
        run.kill(run.status()["syncer"]["pid"])
        run.wait()
        self.assertIsNone(run.summary())
        for learner, step in rows.items():
            names = [path.name for path in (run.out / "checkpoints").glob(f"learner-{learner}-*")]
            last = max(int(name.split("-")[2].split(".")[0]) for name in names)
            self.assertGreaterEqual(last, step)
        self.go_on(run)

    def test_the_launcher_starts_a_run_without_a_syncer_again(self):
        run = self.start(launch=True, sync__spares=0, train__steps=2000)
        run.wait_for("there was a global checkpoint",
                     lambda: any((run.out / "checkpoints").glob("global-*.h5")))
        run.kill(run.status()["syncer"]["pid"])
        self.assertEqual(run.wait(), DONE)
        self.assertEqual(run.finish(DONE)["outcome"], "complete")
        self.assertRegex(run.log().splitlines()[-1],
                         rf"complete: {run.summary()['tokens']} tokens, validation loss \d\.\d{{4}}\Z")
        starts = sum("settings" in entry for entry in run.events())
        self.assertEqual(starts, 2)
        self.assert_tokens_counted_once(run)
        self.assert_left_alone_once_complete(run)

    def test_the_launcher_begins_anew_where_there_is_no_checkpoint(self):
        run = self.start(launch=True, sync__spares=0, train__steps=2000, checkpoint__global_rounds=ENDLESS)
        run.wait_until_training()
        run.kill(run.status()["syncer"]["pid"])
        self.assertEqual(run.wait(), DONE)
        self.assertIn("before its first global checkpoint; starting it again from the beginning\n", run.log())
        self.assertNotIn("from its newest checkpoint", run.log())
        self.assertEqual(sum("settings" in entry for entry in run.events()), 2)

    def assert_left_alone_once_complete(self, run):
        contents = lambda: {path.name: path.read_bytes() for path in run.out.glob("*.json*")}
        before = contents()
        again = self.resume(run, launch=True)
        self.assertEqual(again.wait(), DONE)
        self.assertRegex(again.log(), r"already complete: \d+ tokens.*--train\.steps\n\Z")
        self.assertEqual(contents(), before)

    def launcher(self, run):
        """The process id of `launch` once its mpirun has begun."""
        found = lambda: [pid for pid in children(run.process.pid) if children(pid)]
        run.wait_for("the launcher started its job", found)
        return found()[0]

    def test_a_signal_to_the_launcher_before_there_is_a_folder(self):
        run = self.start(launch=True, train__steps=ENDLESS)
        run.kill(self.launcher(run), signal.SIGTERM)
        self.assertEqual(run.finish(TRY_AGAIN)["reason"], "a signal to the launcher")
        self.assertRegex(run.log().splitlines()[-1], r"stopped at \d+ % of the tokens; go on with: "
                         rf"archipelago launch -- --out {run.out} --resume\Z")

    def test_the_launcher_tells_the_file_from_a_signal(self):
        def begin(out):
            run = self.start(launch=["--stop-code", "3"], train__steps=ENDLESS, out=self.folder / out)
            run.wait_until_training()
            return run

        by_file = begin("file")
        by_file.stop()
        self.assertEqual(by_file.wait(), 3)
        self.assertEqual(by_file.finish(TRY_AGAIN)["reason"], "the file stop")
        by_signal = begin("signal")
        by_signal.kill(self.launcher(by_signal), signal.SIGUSR1)
        self.assertEqual(by_signal.wait(), TRY_AGAIN)
        self.assertEqual(by_signal.finish(TRY_AGAIN)["reason"], "a signal to the launcher")

    def test_repeated_signals_do_not_stop_the_next_start(self):
        run = self.start(launch=True, train__steps=ENDLESS)
        launcher = self.launcher(run)
        run.wait_until_training()
        while run.process.poll() is None:
            try:
                run.kill(launcher, signal.SIGUSR1)
            except ProcessLookupError:
                break
            time.sleep(0.05)
        self.assertEqual(run.finish(TRY_AGAIN)["outcome"], "stopped")
        self.assertFalse((run.out / "stop").exists())

    def test_a_signal_ends_a_run_whose_syncer_hangs(self):
        run = self.start(launch=True, train__steps=ENDLESS, sync__standby=0)
        run.wait_until_training()
        status = run.status()
        run.kill(status["syncer"]["pid"], signal.SIGSTOP)
        run.wait_for("that was told", lambda: "has given no sign of life" in run.log())
        self.assertIsNone(run.process.poll())
        run.kill(self.launcher(run), signal.SIGTERM)
        self.assertEqual(run.wait(), TRY_AGAIN)
        ranks = [pid for learner in status["learners"] for pid in learner["pids"]]
        run.wait_for("the ranks were gone",
                     lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in ranks))

    def test_two_runs_on_one_folder(self):
        run = self.begin()
        second = self.resume(run)
        self.assertEqual(second.wait(), CONFIGURATION)
        self.assertIn("another run uses it now", second.log())
        # The launcher sees it by itself: a Ctrl-C is not for the first run.
        third = self.resume(run, launch=True)
        self.assertEqual(third.wait(), CONFIGURATION)
        self.assertRegex(third.log(), r"\Aarchipelago: .*another run uses it now.*\n\Z")
        rounds = run.status()["round"]
        run.wait_for("the first went on", lambda: run.status()["round"] > rounds)
        run.stop()
        run.finish(TRY_AGAIN)


if __name__ == "__main__":
    unittest.main()
