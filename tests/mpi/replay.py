"""Real runs with deaths, followed again from their tapes: the same decisions, the same Theta."""

import itertools
import json
import os
import signal
import subprocess
import unittest

from job import BAD_DATA, DONE, ENDLESS, PROGRAM, TRY_AGAIN, MpiTest


class Replay(MpiTest):

    def begin(self, **options):
        # All checkpoints are kept: each launch is followed from the one that it began with.
        run = self.start(record="fragments", train__steps=ENDLESS, checkpoint__keep=1000, **options)
        run.wait_until_training()
        return run

    def wait_for_snapshots(self, run, count):
        run.wait_for(f"there were {count} snapshots",
                     lambda: sum("snapshot" in entry for entry in run.events()) >= count)

    def replay(self, run, exit_code=DONE):
        done = subprocess.run([PROGRAM, "replay", str(run.out), "--json"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return json.loads(done.stdout), done.stderr

    def assert_same(self, run):
        shown, _ = self.replay(run)
        self.assertTrue(shown["same"])
        self.assertEqual(shown["theta_unknown"], "")
        self.assertGreater(shown["merges"], 10)
        self.assertGreater(shown["recomputed"], 2)
        self.assertEqual(shown["recomputed"], shown["snapshots"])
        return shown

    def test_kills_and_a_changed_tape(self):
        run = self.begin(sync__spares=3)
        for number in (1, 0):
            life = run.kill_learner(number)
            run.wait_for_rejoin(number, life + 1)
        self.wait_for_snapshots(run, 4)
        run.stop()
        run.finish(TRY_AGAIN)
        shown = self.assert_same(run)
        self.assertGreater(shown["checkpoints"], 0)
        self.assertEqual(shown["end"], "the file stop")

        tape = run.out / "events.jsonl"
        lines = tape.read_text().split("\n")
        changed = next(i for i, line in enumerate(lines) if '"type":"merge"' in line and i > 100)
        tape.write_text("\n".join(
            line.replace('"weight":', '"weight":1') if i == changed else line
            for i, line in enumerate(lines)))
        shown, errors = self.replay(run, BAD_DATA)
        self.assertFalse(shown["same"])
        self.assertIn(f"events.jsonl:{changed + 1}: ", errors)

        # Cut off, as by a crash.
        tape.write_text("\n".join(lines[:changed]) + "\n" + lines[changed][:50])
        shown, _ = self.replay(run)
        self.assertEqual(shown["cuts"], [changed + 1])
        self.assertEqual(shown["end"], "")

    def test_plain_means_of_a_quorum(self):
        run = self.begin(sync__merge="mean", sync__quorum=2)
        life = run.kill_learner(1)
        run.wait_for_rejoin(1, life + 1)
        self.wait_for_snapshots(run, 4)
        run.stop()
        run.finish(TRY_AGAIN)
        self.assert_same(run)
        before_the_stop = itertools.takewhile(
            lambda entry: entry.get("event", {}).get("type") != "stop_requested", run.events())
        merges = [action for entry in before_the_stop for action in entry.get("actions", [])
                  if action["type"] == "merge"]
        self.assertGreater(len(merges), 10)
        for merge in merges:
            self.assertGreaterEqual(len({one["learner"] for one in merge["contributions"]}), 2)

    def test_a_standby_takes_over(self):
        run = self.begin(sync__standby=1)
        self.wait_for_snapshots(run, 2)
        run.kill(run.status()["syncer"]["pid"])
        run.wait_for("the standby took over", lambda: run.status()["syncer"]["term"] == 1)
        self.wait_for_snapshots(run, 5)
        life = run.kill_learner(1)
        run.wait_for_rejoin(1, life + 1)
        run.stop()
        run.finish(TRY_AGAIN)
        shown, _ = self.replay(run)
        self.assertEqual(shown["takeovers"], 1)
        if shown["theta_unknown"]:  # the syncer died before the last fragments were on its disk
            self.assertIn("was not kept", shown["theta_unknown"])
            return
        # A snapshot that the standby did not know of does not count.
        self.assertGreater(shown["recomputed"], 3)
        self.assertEqual(shown["recomputed"], shown["snapshots"])

    def test_everything_is_killed_and_taken_up_again(self):
        run = self.begin()
        self.wait_for_snapshots(run, 3)
        pids = [run.status()["syncer"]["pid"],
                *(pid for entry in run.status()["learners"] for pid in entry["pids"])]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        run.wait()
        again = self.resume(run)
        again.wait_for("it went on", lambda: sum("settings" in e for e in again.events()) == 2)
        self.wait_for_snapshots(again, 6)
        again.stop()
        again.finish(TRY_AGAIN)
        shown = self.assert_same(again)
        self.assertEqual(shown["starts"], 2)


if __name__ == "__main__":
    unittest.main()
