"""Elastic data-parallel training with real kills: who lives goes on together, a spare takes the dead learner's place."""

import math
import signal
import subprocess
import sys
import unittest

import job
from job import BATCH_TOKENS, CONFIGURATION, DONE, ENDLESS, INTERNAL, PROGRAM, TRY_AGAIN, MpiTest
from plain_run import STATUS, SUMMARY, checked_rows

METHOD = "elastic-data-parallel"
EQUAL = "ranks that train hold the same parameters"
WHAT_HAPPENED = job.pathlib.Path(__file__).resolve().parents[2] / "scripts" / "what-happened"


class Elastic(MpiTest):

    def start_elastic(self, **options):
        return self.start(method=METHOD, out=self.folder / f"run{len(self.jobs)}", **options)

    def finish(self, run, exit_code, losses, rejoins):
        """Waits for the end and checks what holds after any: equal ranks, counts, records."""
        summary = run.finish(exit_code)
        self.assertIn(EQUAL, run.log())
        self.assertEqual((summary["losses"], summary["rejoins"]), (losses, rejoins), run.log_end())
        self.assertEqual(len(summary["rejoin_s"]), rejoins)
        self.assertEqual(set(summary), SUMMARY)
        self.assertTrue(math.isfinite(summary["final_train_loss"]))
        self.assertTrue(math.isfinite(summary["final_val_loss"]))
        lost = [entry for entry in run.events() if entry.get("event", {}).get("type") == "island_lost"]
        self.assertEqual(len(lost), losses)
        self.assertEqual(len([entry for entry in run.events() if "rejoined" in entry]), rejoins)
        told = subprocess.run([sys.executable, WHAT_HAPPENED, run.out], capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertEqual(told.stdout.count(" died ("), losses)
        self.assertEqual(told.stdout.count("counted again after"), rejoins)
        self.assert_steps_go_on(run)
        return summary

    def assert_steps_go_on(self, run):
        """A learner's lives make the run's steps one after the other; one that was given up between
        two lives may have been told by the first."""
        steps, rounds = checked_rows(self, run)
        self.assertEqual(rounds, [])
        times = [row["t"] for row in steps]
        self.assertEqual(times, sorted(times))
        last = {}
        for row in steps:
            before = last.get(row["learner"])
            if before and before["incarnation"] == row["incarnation"]:
                self.assertGreaterEqual(row["step"], before["step"])
            elif before:
                self.assertGreater(row["incarnation"], before["incarnation"])
                self.assertGreaterEqual(row["step"], before["step"])
            self.assertEqual(row["tokens"], row["step"] * BATCH_TOKENS)
            last[row["learner"]] = row

    def test_without_a_death_it_is_data_parallel(self):
        for ranks in (1, 2):
            options = {"train__steps": 60, "sync__learners": 2, "sync__ranks_per_learner": ranks}
            with self.subTest(ranks=ranks):
                elastic = self.start_elastic(**options)
                summary = self.finish(elastic, DONE, 0, 0)
                plain = self.start(method="data-parallel", out=self.folder / f"plain{ranks}",
                                   **{**options, "sync__spares": 0}, ranks=2 * ranks)
                expected = plain.finish(DONE)
                self.assertEqual(self.parameters(elastic), self.parameters(plain))
                for key in ("tokens", "final_train_loss", "final_val_loss", "bytes_up", "bytes_down"):
                    self.assertEqual(summary[key], expected[key])
                status = elastic.status()
                self.assertEqual(set(status), STATUS - {"learners_wanted", "scale"})
                self.assertEqual([entry["state"] for entry in status["learners"]],
                                 ["ended", "ended", "spare"])

    def test_a_spare_takes_the_place(self):
        run = self.start_elastic(train__steps=100, chaos="kill learner=1 step=20")
        summary = self.finish(run, DONE, 1, 1)
        self.assertEqual(summary["tokens"], 100 * 3 * BATCH_TOKENS)
        last = {learner: run.rows_of(learner, life)[-1]["step"] for learner, life in ((0, 0), (1, 1), (2, 0))}
        self.assertEqual(last, dict.fromkeys(range(3), 100))

    def test_without_a_spare_fewer_go_on(self):
        run = self.start_elastic(train__steps=100, sync__spares=0, chaos="kill learner=0 step=20")
        summary = self.finish(run, DONE, 1, 0)
        budget = 100 * 3 * BATCH_TOKENS
        self.assertGreaterEqual(summary["tokens"], budget)
        self.assertLess(summary["tokens"], budget + 2 * BATCH_TOKENS)
        self.assertEqual(run.learner(0)["state"], "lost")
        self.assertGreater(run.rows_of(1, 0)[-1]["step"], 100)

    def test_two_at_once(self):
        run = self.start_elastic(train__steps=ENDLESS, sync__spares=2)
        run.wait_until_training()
        lives = [run.kill_learner(0), run.kill_learner(2)]
        run.wait_for_rejoin(0, lives[0] + 1)
        run.wait_for_rejoin(2, lives[1] + 1)
        run.stop()
        summary = self.finish(run, TRY_AGAIN, 2, 2)
        self.assertEqual(summary["outcome"], "stopped")

    def test_deaths_while_the_others_regroup(self):
        run = self.start_elastic(train__steps=ENDLESS, sync__spares=3)
        run.wait_until_training()
        # The one that is called is held still in its sleep, so that the others wait for it.
        joiner = run.spares()[0]["pids"][0]
        run.kill(joiner, signal.SIGSTOP)
        life = run.kill_learner(0)
        run.wait_for("the joiner was called", lambda: run.learner(0)["pids"] == [joiner])
        self.assertEqual(run.learner(0)["state"], "joining")
        other = run.kill_learner(1)  # a survivor that waits
        run.wait_for("that was seen", lambda: run.status()["losses"] == 2)
        run.kill(joiner)
        run.wait_for_rejoin(0, life + 2)
        run.wait_for_rejoin(1, other + 1)
        run.stop()
        self.finish(run, TRY_AGAIN, 3, 2)

    def test_islands_of_two_ranks(self):
        run = self.start_elastic(train__steps=ENDLESS, sync__learners=2, sync__ranks_per_learner=2,
                                 sync__spares=2)
        run.wait_until_training()
        for learner, rank in ((0, 1), (1, 0)):
            life = run.kill_learner(learner, rank)
            run.wait_for_rejoin(learner, life + 1)
        run.stop()
        self.finish(run, TRY_AGAIN, 2, 2)

    def test_a_spare_dies_in_its_sleep(self):
        run = self.start_elastic(train__steps=ENDLESS)
        run.wait_until_training()
        run.kill(run.spares()[0]["pids"][0])
        run.wait_for("the spare was gone", lambda: not run.spares())
        run.kill_learner(2)
        run.wait_for("the others went on", lambda: run.learner(2)["state"] == "lost" and
                     run.learner(0)["step"] > run.learner(2)["step"] + 1)
        run.stop()
        self.finish(run, TRY_AGAIN, 1, 0)

    def test_everybody_dies(self):
        run = self.start_elastic(train__steps=ENDLESS, sync__learners=2, sync__spares=0)
        run.wait_until_training()
        for learner in range(2):
            run.kill_learner(learner)
        summary = run.finish(INTERNAL)
        self.assertIn("every learner has died", summary["reason"])
        run.wait_for("the status told it", lambda: run.status()["state"] == "failed")
        self.assertEqual([run.learner(learner)["state"] for learner in range(2)], ["lost", "lost"])
        self.assertEqual(run.status()["losses"], 2)

    def test_the_coordinator_dies(self):
        run = self.start_elastic(launch=True, train__steps=ENDLESS)
        run.wait_until_training()
        run.kill(run.status()["syncer"]["pid"])
        self.assertNotEqual(run.wait(), DONE)
        self.assertEqual(run.status()["state"], "failed")

    def test_a_chaos_plan(self):
        run = self.start_elastic(train__steps=ENDLESS, sync__spares=8,
                                 chaos="kill learner=turn every=0.5 count=8")
        run.wait_for("all were lost and the last was back",
                     lambda: run.status().get("losses") == 8 and run.all_active())
        run.stop()
        run.finish(TRY_AGAIN)
        # A life that is killed before its first step does not count again.
        lives = {(row["learner"], row["incarnation"]) for row in run.metrics()}
        self.finish(run, TRY_AGAIN, 8, len([life for life in lives if life[1] > 0]))
        faults = [entry["fault"]["kind"] for entry in run.events() if "fault" in entry]
        self.assertEqual(faults, ["kill"] * 8)

    def test_a_slow_learner_holds_up_all_and_changes_nothing(self):
        slowed = self.start_elastic(train__steps=60, chaos="slow learner=1 step=5 seconds=1000 factor=2")
        self.finish(slowed, DONE, 0, 0)
        self.assertIn("slowed 2.0", slowed.log())
        plain = self.start_elastic(train__steps=60)
        self.finish(plain, DONE, 0, 0)
        self.assertEqual(self.parameters(slowed), self.parameters(plain))

    def test_what_needs_a_syncer_is_refused(self):
        for plan in ("drop learner=1 step=5", "kill learner=1 step=5 when=transfer"):
            run = self.start_elastic(chaos=plan)
            self.assertEqual(run.wait(), CONFIGURATION)
            self.assertIn("needs a syncer", run.log())
        done = subprocess.run([PROGRAM, "launch", "--print", "--", f"--method={METHOD}", "--resume",
                               f"--data.path={self.data}", f"--out={self.run_folder()}"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, CONFIGURATION)


if __name__ == "__main__":
    unittest.main()
