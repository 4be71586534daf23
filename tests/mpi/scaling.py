"""More and fewer learners in a running job: `archipelago scale`, and who trains on which data."""

import subprocess
import unittest

from job import (BATCH_TOKENS, CONFIGURATION, DONE, ENDLESS, JOB_SECONDS, PROGRAM, TINY, TRY_AGAIN, USAGE,
                 MpiTest)

CONTEXT = TINY["model.context"]


class Scaling(MpiTest):

    def scale(self, run, learners):
        return subprocess.run([PROGRAM, "scale", str(run.out), "--learners", str(learners)],
                              capture_output=True, text=True, timeout=JOB_SECONDS)

    def assert_scaled(self, run, learners):
        said = self.scale(run, learners)
        self.assertEqual(said.returncode, DONE, said.stderr + run.log_end())
        self.assertIn(f"{learners} learner", said.stdout)
        ids = [entry["id"] for entry in run.status()["learners"] if entry["id"] is not None]
        self.assertEqual(ids, list(range(learners)))
        self.assertTrue(all(run.is_active(i) for i in range(learners)))

    def assert_refused(self, run, learners, exit_code, *words):
        said = self.scale(run, learners)
        self.assertEqual(said.returncode, exit_code, said.stdout + said.stderr)
        self.assertEqual(len(said.stderr.splitlines()), 1, said.stderr)
        for word in words:
            self.assertIn(word, said.stderr)

    def follow_shards(self, tape):
        """Goes through a tape and checks that no data shard is ever leased to two learners that
        may train on it. Returns what each learner that may train holds at the tape's end; nothing
        while a lease is not followed yet."""
        held, offered, island_of = {}, {}, {}

        def end(learner):
            held.pop(learner, None)
            offered.pop(learner, None)
            island_of.pop(learner, None)

        for entry in tape:
            event = entry.get("event", {})
            if event.get("type") in ("island_lost", "island_ready"):
                for learner in [key for key, island in island_of.items()
                                if island == event["island"]]:
                    end(learner)
            if event.get("type") == "lease_followed":
                learner = event["learner"]
                if learner in offered and offered[learner][0] == event["number"]:
                    held[learner] = offered.pop(learner)[1]
            for action in entry.get("actions", []):
                if action["type"] == "assign":
                    end(action["learner"])
                    island_of[action["learner"]] = action["island"]
                elif action["type"] == "expel":
                    end(action["learner"])
                elif action["type"] == "lease":
                    shards = set(action["shards"])
                    for other in island_of:
                        if other == action["learner"]:
                            continue
                        taken = held.get(other, set()) | offered.get(other, (0, set()))[1]
                        self.assertFalse(shards & taken, f"leased twice: {entry}")
                    offered[action["learner"]] = (action["number"], shards)
        return {} if offered else held

    def wait_for_shards(self, run, learners):
        """Waits until just these learners hold shards, then checks how they share them."""
        tape = []

        def shared():
            tape[:] = run.events()
            return sorted(self.follow_shards(tape)) == learners

        run.wait_for(f"only {learners} held shards", shared)
        return self.assert_all_shards_are_trained(tape, learners)

    def assert_all_shards_are_trained(self, tape, learners):
        held = self.follow_shards(tape)
        shards = tape[0]["settings"]["shards"][0]
        self.assertEqual(sorted(held), learners)
        self.assertEqual(sorted(s for each in held.values() for s in each), list(range(shards)))
        sizes = [len(each) for each in held.values()]
        self.assertLessEqual(max(sizes) - min(sizes), 1)
        return held

    def wait_for_rows(self, run, learners):
        for learner in learners:
            life = run.learner(learner)["incarnation"]
            run.wait_for(f"learner {learner} trained",
                         lambda l=learner, i=life: len(run.rows_of(l, i)) > 3)

    def test_up_and_down(self):
        run = self.start(train__steps=ENDLESS, sync__learners=2, sync__spares=2)
        run.wait_until_training()
        shards = run.events()[0]["settings"]["shards"][0]

        self.assert_refused(run, 0, USAGE, "--learners")
        self.assert_refused(run, 5, CONFIGURATION, "5 learners", "4")
        self.assert_refused(run, shards + 1, CONFIGURATION, str(shards))
        self.assertEqual(run.status()["learners_wanted"], 2)

        self.assert_scaled(run, 4)
        self.wait_for_rows(run, range(4))
        self.wait_for_shards(run, [0, 1, 2, 3])

        self.assert_scaled(run, 1)
        run.wait_for("the others slept", lambda: len(run.spares()) == 3)
        self.wait_for_rows(run, [0])
        held = self.wait_for_shards(run, [0])
        self.assertEqual(len(held[0]), shards)

        # An id is taken up again, and a learner that came later dies and comes back.
        self.assert_scaled(run, 3)
        life = run.kill_learner(2)
        run.wait_for_rejoin(2, life + 1)
        self.wait_for_rows(run, range(3))
        self.wait_for_shards(run, [0, 1, 2])
        run.stop()
        summary = run.finish(TRY_AGAIN)
        self.assertEqual((summary["losses"], summary["rejoins"]), (1, 1))
        self.assertEqual(self.scale(run, 2).returncode, TRY_AGAIN)
        self.assert_tokens_counted_once(run)

        # The next start follows the last request.
        tape = run.events()
        again = self.resume(run)
        again.wait_for("three learners held shards", lambda: sorted(
            self.follow_shards(again.events()[len(tape):])) == [0, 1, 2])
        self.assertIn("had 3 learners when it ended; it goes on with them", again.log())
        again.stop()
        summary = again.finish(TRY_AGAIN)

        # An option that has changed is the newer wish. Every sequence that counts was taken from a shard.
        tape = run.events()
        last = self.resume(run, sync__learners=1, sync__spares=3,
                           train__steps=summary["tokens"] // BATCH_TOKENS + 100)
        last.finish(DONE)
        self.assertIn("had 3 learners when it ended; it goes on with 1", last.log())
        later = last.events()[len(tape):]
        restored = later[0]["restored"]
        fragments = run.option("sync.fragments")
        rows = [restored["merged_tokens"][i:i + fragments]
                for i in range(0, len(restored["merged_tokens"]), fragments)]
        lasting = [sum(row) // fragments // BATCH_TOKENS * BATCH_TOKENS for row in rows]
        self.assertEqual(len(rows), 4)
        self.assertEqual(sum(restored["shards"]) * CONTEXT, sum(lasting))
        self.assert_all_shards_are_trained(later, [0])

    def test_nobody_takes_the_place(self):
        """Without a spare the others train on a dead learner's data."""
        run = self.start(train__steps=ENDLESS, sync__learners=3, sync__spares=0)
        run.wait_until_training()
        run.kill_learner(1)
        self.wait_for_shards(run, [0, 2])
        run.stop()
        run.finish(TRY_AGAIN)

    def test_spawned(self):
        run = self.start(train__steps=ENDLESS, sync__learners=1, sync__spares=0, sync__refill=1)
        run.wait_until_training()
        self.assert_scaled(run, 2)
        self.wait_for_rows(run, [0, 1])
        run.stop()
        run.finish(TRY_AGAIN)

    def test_no_run(self):
        said = subprocess.run([PROGRAM, "scale", str(self.folder), "--learners", "2"],
                              capture_output=True, text=True)
        self.assertEqual(said.returncode, CONFIGURATION)
        self.assertIn("no run", said.stderr)


if __name__ == "__main__":
    unittest.main()
