"""Islands that are jobs of their own: `archipelago join` into a run that trains."""

import json
import pathlib
import signal
import stat
import subprocess
import tempfile
import unittest

from job import (CONFIGURATION, DONE, ENDLESS, JOB_SECONDS, PROGRAM, TRY_AGAIN, MpiTest)


class Guest:
    """One `join`. `on`: makes of a command the one that runs it where the guest is to be."""

    def __init__(self, test, folder, *arguments, on=lambda command: command, environment=None):
        self.test = test
        self.log_path = pathlib.Path(tempfile.mkstemp(prefix="guest", suffix=".log", dir=test.folder)[1])
        command = [PROGRAM, "join", str(folder), *arguments]
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(
                ["timeout", "--foreground", "-k", "5", str(JOB_SECONDS), *on(command)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def leave(self):
        self.process.send_signal(signal.SIGTERM)

    def finish(self, exit_code):
        self.test.assertEqual(self.process.wait(), exit_code, self.log_path.read_text())


class Guests(MpiTest):

    def start_listening(self, **options):
        run = self.start(**{"train__steps": ENDLESS, "sync__learners": 2, "sync__spares": 0,
                            "sync__listen": "127.0.0.1:0", **options})
        run.wait_until_training()
        return run

    def wait_for_rows(self, run, learner):
        life = run.learner(learner)["incarnation"]
        run.wait_for(f"learner {learner} trained", lambda: len(run.rows_of(learner, life)) > 3)

    def wait_for_contribution(self, run, learner):
        life = run.learner(learner)["incarnation"]
        run.wait_for(f"learner {learner} was merged", lambda: any(
            (one["learner"], one["incarnation"]) == (learner, life) and one["weight"] > 0
            for merge in run.actions("merge") for one in merge["contributions"]))

    def wait_until_lost(self, run, learner):
        run.wait_for(f"learner {learner} was lost", lambda: run.learner(learner)["state"] == "lost")

    def join_run(self, run, *arguments):
        guest = Guest(self, run.out, *arguments)
        run.wait_for("a third learner trained", lambda: run.is_active(2))
        return guest

    def replay(self, run):
        done = subprocess.run([PROGRAM, "replay", str(run.out)], capture_output=True, text=True)
        self.assertEqual(done.returncode, DONE, done.stdout + done.stderr)

    def test_come_and_go(self):
        run = self.start_listening()
        self.assertEqual(stat.S_IMODE((run.out / "join.json").stat().st_mode), 0o600)
        guest = self.join_run(run)
        self.assertEqual(run.status()["learners_wanted"], 3)
        self.wait_for_contribution(run, 2)

        # Killed, it comes again by itself.
        life = run.kill_learner(2)
        run.wait_for_rejoin(2, life + 1)
        self.wait_for_contribution(run, 2)

        # It leaves, and its place goes with it; the next one gets the same.
        guest.leave()
        guest.finish(TRY_AGAIN)
        run.wait_for("the place was gone", lambda: run.status()["learners_wanted"] == 2)
        self.assertEqual({learner["id"] for learner in run.status()["learners"]}, {0, 1})
        self.assertIn("has left the run", run.log())
        other = self.join_run(run, "--ranks", "2")
        self.assertEqual(run.status()["learners_wanted"], 3)
        self.assertEqual(len(run.learner(2)["pids"]), 2)
        self.wait_for_contribution(run, 2)
        run.stop()
        run.finish(TRY_AGAIN)
        other.finish(TRY_AGAIN)
        self.assert_tokens_counted_once(run)
        self.replay(run)

    def test_spares_are_for_the_runs_own(self):
        run = self.start_listening(sync__spares=1, sync__refill="true")
        guest = self.join_run(run)
        guest.leave()
        guest.finish(TRY_AGAIN)
        run.wait_for("the place was gone", lambda: run.status()["learners_wanted"] == 2)
        run.stop()
        run.finish(TRY_AGAIN)
        lives = [(one["learner"], one["island"]) for one in run.actions("assign")]
        self.assertEqual(sorted(learner for learner, _ in lives), [0, 1, 2])

        # Started again without a guest it is as large as it was without one.
        again = self.resume(run)
        again.wait_until_training()
        self.assertEqual(again.status()["learners_wanted"], 2)
        again.stop()
        again.finish(TRY_AGAIN)

    def test_dead_learners_place(self):
        run = self.start_listening()
        run.kill_learner(1)
        self.wait_until_lost(run, 1)
        guest = Guest(self, run.out)
        run.wait_for_rejoin(1, 1)
        self.assertEqual(run.status()["learners_wanted"], 2)
        self.wait_for_contribution(run, 1)
        run.stop()
        run.finish(TRY_AGAIN)
        guest.finish(TRY_AGAIN)

    def test_complete(self):
        run = self.start_listening(train__steps=12000)
        guest = self.join_run(run)
        summary = run.finish(DONE)
        self.assertEqual(summary["losses"], 0)
        guest.finish(DONE)
        self.assert_tokens_counted_once(run)

    def test_standby_takes_over(self):
        run = self.start_listening(sync__standby=1)
        guest = self.join_run(run)
        self.wait_for_contribution(run, 2)
        life = run.learner(2)["incarnation"]
        run.kill(run.status()["syncer"]["pid"])
        run.wait_for("the standby took over", lambda: run.status()["syncer"]["term"] == 1)
        run.wait_for_rejoin(2, life + 1)
        self.wait_for_contribution(run, 2)
        run.stop()
        run.finish(TRY_AGAIN)
        guest.finish(TRY_AGAIN)
        self.replay(run)

    def test_run_is_started_again(self):
        run = self.start_listening()
        guest = self.join_run(run)
        run.wait_for("a global checkpoint", lambda: list((run.out / "checkpoints").glob("global-*.h5")))
        before = run.status()["syncer"]["pid"]
        run.kill(before)
        run.wait()
        again = self.resume(run)
        again.wait_for("the guest was back", lambda: again.status().get("syncer", {}).get("pid") != before
                       and again.is_active(2))
        again.stop()
        again.finish(TRY_AGAIN)
        guest.finish(TRY_AGAIN)

    def assert_refused(self, folder, exit_code, words, *arguments):
        done = subprocess.run([PROGRAM, "join", str(folder), "--patience", "1", *arguments],
                              capture_output=True, text=True, timeout=JOB_SECONDS)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        errors = [line for line in done.stderr.splitlines()
                  if " ERROR " in line or line.startswith("archipelago:")]
        self.assertEqual(len(errors), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_turned_away(self):
        run = self.start_listening()
        self.assert_refused(run.out, CONFIGURATION, ["train.lr", "0.5"], "--", "--train.lr=0.5")
        other_data = self.prepare("other.h5", 2)
        self.assert_refused(run.out, CONFIGURATION, ["digest"], "--", f"--data.path={other_data}")
        self.assert_refused(self.folder / "nowhere", CONFIGURATION, ["config.ini"])
        copy = self.folder / "copy"
        copy.mkdir()
        (copy / "config.ini").write_bytes((run.out / "config.ini").read_bytes())
        self.assert_refused(copy, TRY_AGAIN, ["sync.listen"])
        (copy / "join.json").write_text("{}")
        self.assert_refused(copy, CONFIGURATION, ["join.json"])
        invitation = json.loads((run.out / "join.json").read_text())
        (copy / "join.json").write_text(json.dumps({**invitation, "secret": "00" * 32}))
        self.assert_refused(copy, CONFIGURATION, ["secret"])
        # None of them has disturbed the run; a folder with copies does for one that may come.
        (copy / "join.json").write_text(json.dumps(invitation))
        guest = Guest(self, copy)
        run.wait_for("a third learner trained", lambda: run.is_active(2))
        self.assertEqual(run.status()["losses"], 0)
        run.stop()
        run.finish(TRY_AGAIN)
        guest.finish(TRY_AGAIN)

    def test_cannot_listen(self):
        run = self.start(sync__listen="256.0.0.1:1")
        self.assertEqual(run.wait(), CONFIGURATION)
        self.assertIn("sync.listen", run.log())


if __name__ == "__main__":
    unittest.main()
