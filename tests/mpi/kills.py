"""kill -9 of whatever a job consists of: the others go on, the dead come back and count again."""

import signal
import unittest

from job import BATCH_TOKENS, DONE, ENDLESS, TRY_AGAIN, MpiTest


class Kills(MpiTest):

    def end_early(self, run, losses, rejoins):
        """Stops the run and checks what it says of the failures."""
        run.stop()
        summary = run.finish(TRY_AGAIN)
        self.assertEqual(summary["losses"], losses, run.log_end())
        self.assertEqual(summary["rejoins"], rejoins, run.log_end())
        self.assertEqual(len(summary["rejoin_s"]), rejoins)
        rejoined = [entry["rejoined"] for entry in run.events() if "rejoined" in entry]
        self.assertEqual(len(rejoined), rejoins)
        self.assert_tokens_counted_once(run)
        return summary

    def assert_others_kept_training(self, run, number):
        """Rows of every other learner's first life stand before and after the loss on the tape."""
        time = next(entry["t"] for entry in run.events()
                    if entry.get("event", {}).get("type") == "island_lost") * 1e-9
        for other in range(run.option("sync.learners")):
            if other == number:
                continue
            times = [row["t"] for row in run.rows_of(other, 0)]
            self.assertTrue(min(times) < time < max(times))

    def test_one_dies_and_the_run_completes(self):
        run = self.start(train__steps=1500)
        run.wait_until_training()
        run.kill_learner(1)
        summary = run.finish(DONE)
        self.assertEqual((summary["losses"], summary["rejoins"]), (1, 1))
        budget = 1500 * 3 * BATCH_TOKENS
        self.assertGreaterEqual(summary["tokens"], budget)
        self.assert_others_kept_training(run, 1)
        self.assert_tokens_counted_once(run)
        back = run.rows_of(1, 1)[0]["t"]
        self.assertTrue(any(1 in row["contributors"] for row in run.metrics()
                            if "round" in row and row["t"] > back))

    def test_learners_spares_and_joiners(self):
        run = self.start(train__steps=ENDLESS, sync__spares=6)
        run.wait_until_training()

        # A spare: nobody is lost by it, and the next of them takes over later.
        first = run.spares()[0]["pids"][0]
        run.kill(first)
        run.wait_for("the spare was gone", lambda: len(run.spares()) == 5)
        self.assertEqual(run.status()["losses"], 0)

        life = run.kill_learner(0)
        run.wait_for_rejoin(0, life + 1)

        # Two at once.
        lives = [run.kill_learner(1), run.kill_learner(2)]
        run.wait_for_rejoin(1, lives[0] + 1)
        run.wait_for_rejoin(2, lives[1] + 1)

        # One that is joining: it is held still in its sleep, and killed once it has been called.
        joiner = run.spares()[0]["pids"][0]
        run.kill(joiner, signal.SIGSTOP)
        life = run.kill_learner(0)
        run.wait_for("the joiner was called", lambda: run.learner(0)["pids"] == [joiner])
        self.assertEqual(run.learner(0)["state"], "joining")
        run.kill(joiner)
        run.wait_for_rejoin(0, life + 2)
        self.end_early(run, losses=5, rejoins=4)

    def test_ranks_of_larger_islands(self):
        run = self.start(train__steps=ENDLESS, sync__learners=2, sync__ranks_per_learner=2,
                         sync__spares=3)
        run.wait_until_training()

        life = run.kill_learner(0, rank=1)
        run.wait_for_rejoin(0, life + 1)
        life = run.kill_learner(1, rank=0)
        run.wait_for_rejoin(1, life + 1)

        # The last spare goes as a whole too, though it sleeps.
        run.kill(run.spares()[0]["pids"][1])
        run.wait_for("the spare was gone", lambda: not run.spares())
        self.assertEqual(run.status()["losses"], 2)
        self.end_early(run, losses=2, rejoins=2)

    def test_nobody_is_left_to_take_the_place(self):
        run = self.start(train__steps=1500, sync__spares=0)
        run.wait_until_training()
        run.kill_learner(2)
        run.wait_for("the loss was seen", lambda: run.learner(2)["state"] == "lost")
        summary = run.finish(DONE)
        self.assertEqual((summary["losses"], summary["rejoins"]), (1, 0))

    def test_everybody_dies(self):
        run = self.start(train__steps=ENDLESS, sync__spares=0)
        run.wait_until_training()
        run.wait_for("rounds were merged", lambda: run.status()["round"] > 0)
        for number in range(3):
            run.kill_learner(number)
        summary = run.finish(TRY_AGAIN)
        self.assertEqual((summary["outcome"], summary["losses"]), ("no_learners", 3))
        self.resume(run, train__steps=1).finish(DONE)

    def test_a_spawned_island_takes_the_place(self):
        run = self.start(train__steps=ENDLESS, sync__spares=0, sync__refill=1)
        run.wait_until_training()
        life = run.kill_learner(1)
        run.wait_for_rejoin(1, life + 1)
        self.end_early(run, losses=1, rejoins=1)


if __name__ == "__main__":
    unittest.main()
