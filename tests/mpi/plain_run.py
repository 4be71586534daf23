"""A run without failures: what its folder holds, to the last field, for islands of one and two ranks."""

import json
import subprocess
import unittest

import job
from job import BATCH_TOKENS, DONE, TRY_AGAIN, MpiTest

# docs/design.md, "A run's folder".
STEP_ROW = {"t", "learner", "incarnation", "step", "tokens", "loss", "lr", "grad_norm",
            "step_s", "blocked_s", "energy_j"}
ROUND_ROW = {"t", "round", "fragment", "version", "contributors", "wait_s", "merge_s"}
STATUS = {"state", "round", "syncer", "learners", "learners_wanted", "scale", "tokens",
          "token_budget", "losses", "rejoins"}
STATUS_SYNCER = {"host", "pid", "term"}
STATUS_LEARNER = {"id", "incarnation", "host", "pids", "step", "tokens", "state"}
SUMMARY = {
    "tokens", "wall_s", "goodput", "losses", "rejoins", "rejoin_s", "rounds", "final_train_loss",
    "final_val_loss", "blocked_fraction", "bytes_up", "bytes_down", "syncer_max_gap_s", "refused",
    "merged_share", "contributors", "dropped",
    "largest_resident_bytes", "largest_memory_ratio", "checkpoint_failures", "outcome", "reason",
    "energy_j", "energy_per_token_j",
    "exit_code"
}


def checked_rows(test, run):
    """The rows of steps and those of rounds; besides there are only those of global checkpoints."""
    rows = [row for row in run.metrics() if "checkpoint" not in row]
    steps = [row for row in rows if "learner" in row]
    rounds = [row for row in rows if "round" in row]
    test.assertEqual(len(steps) + len(rounds), len(rows))
    for row in steps:
        test.assertEqual(set(row), STEP_ROW)
        test.assertGreater(min(row["lr"], row["grad_norm"]), 0)
    return steps, rounds


class PlainRun(MpiTest):

    def check_merged(self, run, summary, rounds):
        """The same of the tape: which of a learner's tokens each fragment has taken in."""
        deliveries = {}
        taken = {}
        for entry in run.events():
            event = entry.get("event", {})
            if event.get("type") == "delivery":
                deliveries[event["learner"], event["round"]] = event
            for merge in (each for each in entry.get("actions", []) if each["type"] == "merge"):
                for part in merge["contributions"]:
                    sent = deliveries[part["learner"], merge["round"]]
                    tokens = taken.setdefault((part["learner"], merge["fragment"]), set())
                    tokens.update(range((sent["at_tokens"] - sent["tokens"]) // BATCH_TOKENS,
                                        sent["at_tokens"] // BATCH_TOKENS))
        merged = sum(map(len, taken.values())) * BATCH_TOKENS / run.option("sync.fragments")
        self.assertAlmostEqual(summary["merged_share"], min(merged / summary["tokens"], 1), places=5)
        self.assertAlmostEqual(summary["contributors"],
                               sum(len(row["contributors"]) for row in rounds) / len(rounds))
        dropped = {}
        for action in run.actions("discard"):
            dropped[action["reason"]] = dropped.get(action["reason"], 0) + 1
        self.assertEqual(summary["dropped"], dropped)

    def check_run(self, run):
        budget = run.option("train.steps") * run.option("sync.learners") * BATCH_TOKENS
        summary = run.finish(DONE)
        self.assertEqual(set(summary), SUMMARY)
        self.assertEqual((summary["losses"], summary["rejoins"], summary["rejoin_s"]), (0, 0, []))
        self.assertEqual((summary["refused"], summary["checkpoint_failures"]), (0, 0))
        self.assertEqual(summary["outcome"], "complete")
        self.assertGreaterEqual(summary["tokens"], budget)
        self.assertGreater(summary["goodput"], 0)
        self.assertGreater(summary["bytes_up"], 0)
        self.assertGreater(summary["bytes_down"], 0)

        steps, rounds = checked_rows(self, run)
        self.check_merged(run, summary, rounds)
        self.check_energy(summary, steps)
        self.check_rounds(rounds, summary["rounds"], run.option("sync.fragments"))
        trained = {row["learner"]: row["tokens"] for row in steps}  # the last row of each stays
        # A learner that hears late of the end makes a few steps that don't count.
        self.assertGreaterEqual(sum(trained.values()), summary["tokens"])
        first, last = steps[0]["loss"], summary["final_train_loss"]
        self.assertLess(last, 0.8 * first)
        self.assertLess(summary["final_val_loss"], 0.8 * first)

        status = run.status()
        self.assertEqual(set(status), STATUS)
        self.assertEqual(set(status["syncer"]), STATUS_SYNCER)
        self.assertEqual(status["state"], "done")
        self.assertEqual(status["tokens"], summary["tokens"])
        self.assertEqual(status["token_budget"], budget)
        for learner in status["learners"]:
            self.assertEqual(set(learner), STATUS_LEARNER)
            self.assertEqual(learner["pids"], [], "their processes are gone")
            self.assertEqual(learner["state"], "spare" if learner["id"] is None else "ended")
        self.assertEqual(len(run.spares()), run.option("sync.spares"))

        names = sorted(path.name for path in run.out.iterdir())
        self.assertEqual(names, [".lock", "checkpoints", "config.ini", "events.jsonl",
                                 "metrics.jsonl", "status.json", "summary.json"])
        checkpoints = {path.name for path in (run.out / "checkpoints").iterdir()}
        saved = [row for row in run.metrics() if "checkpoint" in row]
        for row in saved:
            self.assertEqual(set(row), {"t", "checkpoint", "bytes", "seconds"})
            # The last may be written again at the end.
            self.assertEqual(run.log().count(f"INFO syncer wrote {row['checkpoint']}: "),
                             [each["checkpoint"] for each in saved].count(row["checkpoint"]))
            if row["checkpoint"] in checkpoints:
                size = (run.out / "checkpoints" / row["checkpoint"]).stat().st_size
                self.assertEqual(row["bytes"], size)
        written = {row["checkpoint"] for row in saved}
        self.assertGreaterEqual(written, {name for name in checkpoints if name.startswith("global")})
        self.assertIn(f"global-{summary['rounds']:010d}.h5", checkpoints)
        for learner, tokens in trained.items():
            self.assertIn(f"learner-{learner}-{tokens // BATCH_TOKENS:010d}.h5", checkpoints)
        kept = 3  # checkpoint.keep
        self.assertLessEqual(len(checkpoints), kept * (1 + len(trained)))
        self.assert_tokens_counted_once(run)

    def check_energy(self, summary, steps):
        """Numbers where the machine's counters can be read, else "not available" everywhere."""
        told = [row["energy_j"] for row in steps] + [summary["energy_j"]]
        if summary["energy_j"] == "not available":
            self.assertEqual(set(told), {"not available"})
            self.assertEqual(summary["energy_per_token_j"], "not available")
        else:
            self.assertGreaterEqual(min(told), 0)
            self.assertGreater(summary["energy_per_token_j"], 0)

    def check_rounds(self, rows, closed, fragments):
        versions = [0] * fragments
        for row in rows:
            self.assertEqual(set(row), ROUND_ROW)
            self.assertEqual(row["fragment"], (row["round"] - 1) % fragments)
            versions[row["fragment"]] += 1
            self.assertEqual(row["version"], versions[row["fragment"]])
            self.assertTrue(row["contributors"])
        numbers = sorted(row["round"] for row in rows)
        # While training each round merges; of the last P, asked for after the last step, those
        # whose fragment no learner has trained since have nothing to merge.
        before_the_end = list(range(1, closed - fragments + 1))
        self.assertEqual(numbers[:len(before_the_end)], before_the_end)

    def test_islands_of_one_rank(self):
        run = self.start()
        self.check_run(run)

        # The folder's own configuration starts the same run again, in another folder.
        options = {name.replace(".", "__"): None for name in job.TINY}
        again = self.start("--config", str(run.out / "config.ini"), out=self.folder / "again",
                           data__path=None, ranks=run.world_size(), **options)
        summary = again.finish(DONE)
        self.assertEqual(summary["outcome"], "complete")
        same = [text.split("\n", 1)[1] for text in
                ((folder / "config.ini").read_text() for folder in (run.out, again.out))]
        self.assertEqual(same[0], same[1])

    def test_validation_while_it_trains(self):
        """Each loss that is told on the way is that of the checkpoint of its round."""
        run = self.start(checkpoint__validate=1, checkpoint__keep=1000, train__steps=job.ENDLESS)
        validated = lambda: [row for row in run.metrics() if "validated_round" in row]
        run.wait_for("two validations", lambda: len(validated()) > 1)
        run.stop()
        run.finish(TRY_AGAIN)
        rows = validated()
        for row in rows:
            file = run.out / "checkpoints" / f"global-{row['validated_round']:010d}.h5"
            shown = subprocess.run([job.PROGRAM, "evaluate", file, "--data", self.data, "--json", "--tokens",
                                    str(run.option("train.validation"))], check=True, capture_output=True)
            self.assertAlmostEqual(json.loads(shown.stdout)["loss"], row["val_loss"], places=4)
        self.assertEqual(rows, sorted(rows, key=lambda row: row["tokens"]))

    def test_checkpoints_by_time_some_of_them_for_ever(self):
        every = 5  # rounds
        run = self.start(train__steps=job.ENDLESS, checkpoint__global_rounds=job.ENDLESS,
                         checkpoint__global_seconds=1, checkpoint__keep=1, checkpoint__keep_every=every)
        written = lambda: [int(row["checkpoint"][len("global-"):-len(".h5")]) for row in run.metrics()
                           if "checkpoint" in row]
        run.wait_for("four checkpoints", lambda: len(written()) >= 4)
        run.stop()
        run.finish(TRY_AGAIN)
        rounds = sorted(written())
        first_of = {}
        for number in rounds:
            first_of.setdefault(number // every, number)
        first_of.pop(0, None)
        kept = sorted(path.name for path in (run.out / "checkpoints").glob("global-*.h5"))
        self.assertEqual(kept, [f"global-{number:010d}.h5" for number in sorted({rounds[-1], *first_of.values()})])

    def test_islands_of_two_ranks(self):
        self.check_run(self.start(sync__ranks_per_learner=2, sync__learners=2, sync__spares=1))

    def test_mixture_of_experts_divided_over_the_ranks_of_an_island(self):
        self.check_run(self.start(model__kind="moe", model__experts=3, sync__ranks_per_learner=2,
                                  sync__learners=2, sync__spares=1))

    def test_a_learner_with_options_of_its_own(self):
        run = self.start(learner__1__train__batch=8, learner__1__train__optimizer="sgd",
                         learner__1__train__lr=0.05, sync__learners=2)
        summary = run.finish(DONE)
        self.assertEqual(run.status()["token_budget"],
                         run.option("train.steps") * 3 * BATCH_TOKENS)
        self.assertGreaterEqual(summary["tokens"], run.status()["token_budget"])
        for row in run.metrics():
            if "learner" in row:
                own = BATCH_TOKENS * (1 + row["learner"])
                self.assertEqual(row["step"], row["tokens"] // own)
        again = self.start("--config", str(run.out / "config.ini"), out=self.folder / "again",
                           data__path=None, ranks=run.world_size(),
                           **{name.replace(".", "__"): None for name in job.TINY})
        self.assertEqual(again.finish(DONE)["outcome"], "complete")
        self.assertIn("[learner.1]\ntrain.batch = 8\n", (again.out / "config.ini").read_text())


if __name__ == "__main__":
    unittest.main()
