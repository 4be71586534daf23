"""scripts/what-happened on folders made up here."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = os.environ["TEST_SCRIPT"]
SUMMARY = {"outcome": "complete", "reason": "all tokens are trained", "tokens": 4000, "rounds": 9,
           "wall_s": 20.0, "final_train_loss": 1.25, "final_val_loss": 1.5, "losses": 0, "rejoins": 0,
           "goodput": 0.9, "blocked_fraction": 0.01}


def steps(learner, rate, loss, seconds=40):
    """A learner's rows."""
    return [{"t": i / rate, "learner": learner, "step": i, "loss": loss}
            for i in range(1, seconds * rate)]


def entry(seconds, kind, *actions, **more):
    return {"t": seconds * 1e9, "event": {"type": kind, **more}, "actions": list(actions)}


def assign(learner, island):
    return {"type": "assign", "learner": learner, "island": island}


def launch(*more):
    """Learners 0 to 2 on islands 0 to 2."""
    return [{"settings": {}},
            entry(0, "island_ready", *[assign(each, each) for each in range(3)], island=2),
            entry(0.1, "report", step_seconds=0.1), *more]


def lost(seconds, island, *actions):
    return entry(seconds, "island_lost", *actions, island=island, reason="its leader died")


def death(learner, seconds):
    """By a kill, half a second before; noticed, a spare takes its place and counts again."""
    return [{"t": (seconds - 0.5) * 1e9, "fault": {"kind": "kill", "learner": learner, "step": 7}},
            lost(seconds, learner, assign(learner, 7)),
            {"t": seconds * 1e9 + 5e8, "rejoined": {"learner": learner, "seconds": 0.5}}]


class WhatHappened(unittest.TestCase):

    def tell(self, events, metrics, summary=SUMMARY, status=None, age=0):
        with tempfile.TemporaryDirectory() as folder:
            for name, rows in (("events.jsonl", events), ("metrics.jsonl", metrics)):
                if rows is None:
                    continue
                pathlib.Path(folder, name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            for name, whole in (("summary.json", summary), ("status.json", status)):
                if whole is None:
                    continue
                pathlib.Path(folder, name).write_text(json.dumps(whole))
                os.utime(pathlib.Path(folder, name), (time.time() - age,) * 2)
            done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_an_emulation_goes_on(self):
        status = {"state": "training", "virtual_s": 1234.5}
        text = self.tell(launch(), steps(0, 10, 4), summary=None, status=status)
        self.assertIn("has not ended yet (training, virtual second 1234)", text)
        text = self.tell(launch(), steps(0, 10, 4), summary=None, status=status, age=100)
        self.assertIn("was cut off (training, virtual second 1234): it has said nothing for 100 s", text)

    def test_one_launch(self):
        text = self.tell(launch(*death(1, 15)),
                         sorted(steps(0, 10, 4) + steps(1, 10, 2), key=lambda row: row["t"]))
        self.assertIn("4,000 tokens, 9 rounds; 20 s\n", text)
        self.assertIn("   15.0 s   learner 1 died (kill -9 at step 7); a spare took its place and "
                      "counted again after 0.50 s\n", text)
        self.assertIn("10.0 steps/s in the 10 s before, 10.0 in the 10 s after (+0.0%)", text)
        self.assertIn("training loss    3.0000 at the start, 1.2500 at the end", text)
        self.assertIn("\nlost 0", text)
        self.assertNotIn("launch", text)

    def test_images(self):
        text = self.tell(launch(), steps(0, 10, 4), summary={**SUMMARY, "final_val_accuracy": 0.875})
        self.assertIn("at the end (nats)\nvalidation loss  1.5000 at the end, accuracy 87.5%\n", text)
        text = self.tell(launch(), steps(0, 10, 4))
        self.assertIn("at the end (nats a token)\nvalidation loss  1.5000 at the end\n", text)

    def test_silences(self):
        silent = lambda seconds, learner: {
            "t": seconds * 1e9, "silent": {"learner": learner, "step": 40, "seconds": 3.0}}
        events = launch(silent(5, 1), {"t": 9.5e9, "heard_again": {"learner": 1, "seconds": 7.5}},
                        silent(12, 2))
        text = self.tell(events, steps(0, 10, 4))
        self.assertIn("    5.0 s   learner 1 fell silent (since step 40); was heard of again after "
                      "7.5 s\n", text)
        self.assertIn("   12.0 s   learner 2 fell silent (since step 40); was not heard of again\n",
                      text)

    def test_launches_are_told_apart(self):
        # The second failed before its first step.
        events = launch() + [{"settings": {}}] + launch(*death(1, 15))
        text = self.tell(events, steps(0, 10, 4) + steps(0, 32, 2))
        self.assertIn("3 launches, the last of 20 s\n", text)
        self.assertIn("launch 1: 0 learners lost; broke off: its syncer died\n"
                      "launch 2: 0 learners lost; broke off: its syncer died\n"
                      "launch 3: 1 learner lost\n   15.0 s", text)
        self.assertIn("32.0 steps/s in the 10 s before, 32.0 in the 10 s after (+0.0%)", text)
        self.assertIn("training loss    4.0000 at the start, 1.2500 at the end", text)
        self.assertIn("\nin the last launch: lost 0", text)

    def test_a_launch_that_was_stopped(self):
        finish = {"type": "finish", "outcome": "stopped", "reason": "the file stop"}
        text = self.tell(launch(entry(5, "tick", finish)) + launch(), steps(0, 10, 4))
        self.assertIn("launch 1: 0 learners lost; ended: the file stop\nlaunch 2: 0", text)

    def test_everybody_who_left(self):
        expel = {"type": "expel", "learner": 2, "island": 2, "reason": "no report for too long"}
        retire = {"type": "retire", "learner": 1, "island": 7}
        text = self.tell(
            launch(
                lost(15, 0),  # there is no spare
                lost(15, 1, assign(1, 7)),
                lost(15, 5),  # a spare
                entry(20, "tick", expel, assign(2, 8)),
                {"t": 20.2e9, "rejoined": {"learner": 2, "seconds": 0.2}},
                lost(21, 2),  # no learner's any more
                {"t": 22e9, "takeover": {"term": 1, "entries": 9}},
                {"t": 22.5e9, "launcher": "gone"},
                entry(23, "scale_requested", retire)), steps(2, 10, 4))
        self.assertEqual(text.splitlines()[1:-3], [
            "   15.0 s   learner 0 died (its leader died); its place stayed empty",
            "   15.0 s   learner 1 died (its leader died); a spare took its place, but did not count "
            "before the end or the next loss",
            "   20.0 s   learner 2 was expelled (no report for too long); a spare took its place and "
            "counted again after 0.20 s",
            "   22.0 s   the syncer died; the standby took over",
            "   22.5 s   a host was lost, and mpirun with it; the run went on without it",
            "   23.0 s   learner 1 retired, as asked"])

    def test_who_takes_the_place(self):
        counts = lambda seconds: {"t": seconds * 1e9, "rejoined": {"learner": 1, "seconds": 0.5}}
        expel = {"type": "expel", "learner": 1, "island": 8, "reason": "no report for too long"}
        text = self.tell(
            launch(
                lost(15, 1), entry(16, "guest_ready", assign(1, 7), island=7), counts(16.5),
                lost(20, 7, assign(1, 8)), counts(20.5),
                entry(25, "tick", expel), entry(26, "island_ready", assign(1, 8), island=8), counts(26.5)),
            steps(2, 10, 4))
        self.assertEqual([line.split("; ")[1] for line in text.splitlines()[1:4]], [
            "a guest took its place and counted again after 0.50 s",
            "a spare took its place and counted again after 0.50 s",
            "it came back to its place and counted again after 0.50 s"])

    def test_the_first_loss_is_of_those_who_began(self):
        events = launch(entry(20, "guest_ready", assign(3, 7), island=7))
        events[0] = {"settings": {"learners": 3}}
        late = [{**row, "t": row["t"] + 20} for row in steps(3, 10, 1)]
        rows = sorted(steps(0, 10, 4) + steps(2, 10, 3) + late, key=lambda row: row["t"])
        self.assertIn("training loss    3.5000 at the start", self.tell(events, rows))

    def test_windows_hold_nothing_else(self):
        rows = steps(0, 10, 4)
        self.assertIn("the others", self.tell(launch(lost(15, 1)), rows))
        for events in (launch(lost(9, 1)), launch(lost(31, 1)), launch(lost(15, 1), lost(24, 2))):
            self.assertNotIn("the others", self.tell(events, rows))

    def test_launches_that_did_not_train(self):
        self.assertIn("the file stop; the run did not train",
                      self.tell([{"settings": {}}], None, {**SUMMARY, "reason": "the file stop"}))

    def test_a_run_that_failed(self):
        failed = {"outcome": "failed", "reason": "rank 2 died", "exit_code": 75}
        text = self.tell(launch(*death(1, 15)), steps(0, 10, 4), failed)
        self.assertIn(": failed: rank 2 died\n   15.0 s   learner 1 died", text)

    def test_runs_without_a_summary(self):
        status = {"state": "training"}
        text = self.tell(launch(*death(1, 15)), steps(0, 10, 4), None, status)
        self.assertIn(": has not ended yet (training)\n   15.0 s   learner 1 died", text)
        text = self.tell(launch(*death(1, 15)), steps(0, 10, 4), None, status, age=100)
        self.assertRegex(text, r": was cut off \(training\): it has said nothing for 10\d s\n   15.0 s")
        text = self.tell([{"settings": {}}], None, None, {"state": "failed"}, age=100)
        self.assertIn(": failed; the run did not train\n", text)

    def test_a_method_without_a_tape(self):
        text = self.tell(None, steps(0, 10, 4))
        self.assertIn("all tokens are trained; 4,000 tokens, 9 rounds; 20 s\ntraining loss    4.0000",
                      text)


if __name__ == "__main__":
    unittest.main()
