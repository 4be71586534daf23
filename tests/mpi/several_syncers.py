"""Fragments shared out to several syncers: the run is the same, whoever of them dies."""

import json
import signal
import subprocess
import unittest

from job import CONFIGURATION, DONE, ENDLESS, PROGRAM, TRY_AGAIN, MpiTest


class SeveralSyncers(MpiTest):

    def others(self, run):
        return [entry["pid"] for entry in run.status()["other_syncers"]]

    def checkpoints(self, run):
        return sorted((run.out / "checkpoints").glob("global-*.h5"))

    def begin(self, **options):
        run = self.start(train__steps=ENDLESS, sync__syncers=2, sync__spares=0, **options)
        run.wait_until_training()
        run.wait_for("there was a global checkpoint", lambda: self.checkpoints(run))
        return run

    def versions_in(self, path):
        shown = json.loads(subprocess.run([PROGRAM, "inspect", str(path), "--json"], check=True,
                                          capture_output=True).stdout)
        return {dataset["fragment"]: dataset["version"] for dataset in shown["datasets"]
                if dataset["path"].startswith("/params/")}

    def assert_replays(self, run):
        """The tape is one, and the files hold the Theta whose digest stands on it."""
        done = subprocess.run([PROGRAM, "replay", str(run.out), "--json"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(json.loads(done.stdout)["checkpoints"], 0)

    def check_complete(self, run, summary):
        self.assertEqual(summary["outcome"], "complete")
        self.assertEqual(summary["checkpoint_failures"], 0)
        fragments = run.option("sync.fragments")
        versions = [0] * fragments
        for row in run.metrics():
            if "round" in row:
                self.assertEqual(row["fragment"], (row["round"] - 1) % fragments)
                versions[row["fragment"]] += 1
                self.assertEqual(row["version"], versions[row["fragment"]])
        self.assertGreater(min(versions), 1)
        # The last checkpoint has what every syncer merged last.
        self.assertEqual(self.versions_in(self.checkpoints(run)[-1]), dict(enumerate(versions)))
        self.assert_tokens_counted_once(run)
        self.assert_replays(run)

    def test_two_and_three_train(self):
        for syncers in (2, 3):
            run = self.start(out=self.folder / str(syncers), sync__syncers=syncers)
            summary = run.finish(DONE)
            first = next(row["loss"] for row in run.metrics() if "learner" in row)
            self.assertLess(summary["final_val_loss"], 0.8 * first)
            self.check_complete(run, summary)
            self.assertEqual((summary["losses"], summary["rejoins"]), (0, 0))
            self.assertEqual(len(self.others(run)), syncers - 1)

    def test_learners_die_and_join(self):
        run = self.start(sync__syncers=2, train__steps=2500, sync__spares=2, wire__up="e3m0",
                         wire__down="bf16", sync__ranks_per_learner=2, sync__learners=2)
        run.wait_until_training()
        life = run.kill_learner(1)
        run.wait_for_rejoin(1, life + 1)
        life = run.kill_learner(0, rank=1)
        run.wait_for_rejoin(0, life + 1)
        summary = run.finish(DONE)
        self.check_complete(run, summary)
        self.assertEqual((summary["losses"], summary["rejoins"]), (2, 2))
        back = run.rows_of(1, 1)[0]["t"]
        after = {row["fragment"] for row in run.metrics()
                 if "round" in row and row["t"] > back and 1 in row["contributors"]}
        self.assertEqual(after, set(range(run.option("sync.fragments"))))

    def check_failed(self, run, why):
        rows = {row["learner"]: row["step"] for row in run.metrics() if "learner" in row}
        summary = run.finish(TRY_AGAIN)
        self.assertEqual(summary["outcome"], "failed")
        self.assertIn("syncer 1", summary["reason"])
        self.assertIn(why, summary["reason"])
        self.assertEqual(run.status()["state"], "failed")
        self.assertEqual(summary["losses"], 0)
        for learner, step in rows.items():
            names = [path.name for path in (run.out / "checkpoints").glob(f"learner-{learner}-*")]
            last = max(int(name.split("-")[2].split(".")[0]) for name in names)
            self.assertGreaterEqual(last, step)

    def test_one_that_merges_dies(self):
        run = self.begin()
        run.kill(self.others(run)[0])
        self.check_failed(run, "dead")
        # On with other numbers of syncers, from the checkpoint that two have filled.
        for syncers in (3, 1, 2):
            before = self.checkpoints(run)[-1]
            seen = len(run.events())
            run = self.resume(run, sync__syncers=syncers)
            merged = lambda: any(action["type"] == "publish" for entry in run.events()[seen:]
                                 for action in entry.get("actions", []))
            run.wait_for("it merged", merged)
            start = next(entry for entry in run.events()[seen:] if "settings" in entry)
            self.assertGreater(min(start["restored"]["versions"]), 0)
            run.stop()
            self.assertEqual(run.finish(TRY_AGAIN)["outcome"], "stopped")
            self.assertNotEqual(self.checkpoints(run)[-1], before)
            self.assert_replays(run)

    def test_one_that_merges_hangs(self):
        run = self.begin(sync__suspect=1, sync__expel=3)
        other = self.others(run)[0]
        run.kill(other, signal.SIGSTOP)
        run.wait_for("the run was given up", run.summary)
        run.kill(other, signal.SIGCONT)  # mpirun waits for it
        self.check_failed(run, "silent")

    def test_the_first_one_dies(self):
        run = self.begin()
        run.kill(run.status()["syncer"]["pid"])
        run.wait()
        self.assertIsNone(run.summary())
        self.resume(run, train__steps=1).finish(DONE)

    def test_the_launcher_starts_a_run_that_lost_one_again(self):
        run = self.start(launch=["--syncers", "2"], sync__spares=0, train__steps=2000)
        run.wait_for("there was a global checkpoint", lambda: self.checkpoints(run))
        run.kill(self.others(run)[0])
        self.assertEqual(run.wait(), DONE)
        self.assertEqual(run.finish(DONE)["outcome"], "complete")
        self.assertEqual(sum("settings" in entry for entry in run.events()), 2)
        self.assert_tokens_counted_once(run)

    def test_refusals(self):
        for options, why in (({"sync__standby": 1}, "sync.standby"),
                             ({"record": "fragments"}, "record fragments"),
                             ({"sync__syncers": 5}, "4 fragments")):
            run = self.start(**{"sync__syncers": 2, **options})
            self.assertEqual(run.wait(), CONFIGURATION)
            self.assertIn(why, run.log())


if __name__ == "__main__":
    unittest.main()
