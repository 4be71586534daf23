"""Runs whose fragments travel encoded: they train, lose nothing with the dead, and save the bytes."""

import json
import math
import subprocess
import unittest

from job import DONE, ENDLESS, PROGRAM, TRY_AGAIN, MpiTest

LINE = 64  # a report is whole cache lines (src/link/mailbox.h)
HEADER = 256  # a message down has no more besides its data


def encoded_size(encoding, elements):
    """kernels/wire.h"""
    blocks = -(-elements // 64)
    return {"f32": 4 * elements, "bf16": 2 * elements, "int8": 66 * blocks, "e3m0": 34 * blocks}[encoding]


class Wire(MpiTest):

    def fragment_sizes(self, run):
        """Elements of each fragment, from the last global checkpoint."""
        newest = sorted((run.out / "checkpoints").glob("global-*.h5"))[-1]
        shown = json.loads(subprocess.run([PROGRAM, "inspect", str(newest), "--json"], check=True,
                                          capture_output=True).stdout)
        sizes = [0] * run.option("sync.fragments")
        for dataset in shown["datasets"]:
            if dataset["path"].startswith("/params/"):
                sizes[dataset["fragment"]] += math.prod(dataset["shape"])
        return sizes

    def check_bytes(self, run, summary, up, down):
        sizes = self.fragment_sizes(run)
        events = [entry["event"] for entry in run.events() if "event" in entry]
        fragments = sum(encoded_size(up, sizes[event["fragment"]]) for event in events
                        if event["type"] == "delivery")
        self.assertGreater(fragments, 0)
        reports = summary["bytes_up"] - fragments
        self.assertEqual(reports % LINE, 0)
        self.assertGreaterEqual(reports, LINE * sum(event["type"] == "report" for event in events))
        # Every learner is sent each fragment whole at its start, and after each merge, unless a newer
        # one overtakes it.
        merged = [row["fragment"] for row in run.metrics() if "round" in row]
        start = sum(encoded_size("f32" if down == "f32" else "bf16", size) for size in sizes)
        most = start + sum(encoded_size(down, sizes[fragment]) for fragment in merged)
        learners = run.option("sync.learners")
        messages = sum(len(entry.get("actions", [])) + 1 for entry in run.events())
        self.assertGreaterEqual(summary["bytes_down"], learners * start)
        self.assertLessEqual(summary["bytes_down"], learners * most + HEADER * learners * messages)

    def check_trained(self, summary):
        self.assertLess(summary["final_val_loss"], 0.8 * math.log(256))  # of an untrained model
        self.assertEqual(summary["refused"], 0)

    def test_four_bits_up_and_bf16_down(self):
        run = self.start(wire__up="e3m0", wire__down="bf16", model__width=64)
        summary = run.finish(DONE)
        self.check_trained(summary)
        self.assertEqual(summary["losses"], 0)
        self.check_bytes(run, summary, "e3m0", "bf16")

    def test_every_encoding_trains_on_islands_of_two_ranks(self):
        for up, down in (("f32", "f32"), ("bf16", "f32"), ("int8", "bf16"), ("f32", "bf16")):
            run = self.start(out=self.folder / f"{up}-{down}", wire__up=up, wire__down=down, train__steps=200,
                             sync__learners=2, sync__spares=0, sync__ranks_per_learner=2)
            summary = run.finish(DONE)
            self.check_trained(summary)
            self.check_bytes(run, summary, up, down)

    def assert_all_held_what_was_published(self, run):
        """Learners check each update's outcome; what they find wrong they say."""
        self.assertNotIn("does not lead there", run.log())

    def test_updates_down(self):
        for encoding, ranks, syncers in (("int8", 2, 1), ("e3m0", 1, 1), ("e3m0", 1, 2)):
            run = self.start(out=self.folder / f"{encoding}-{syncers}", wire__up=encoding, wire__down=encoding,
                             model__width=64, sync__learners=2, sync__spares=0,
                             sync__ranks_per_learner=ranks, sync__syncers=syncers)
            summary = run.finish(DONE)
            self.check_trained(summary)
            if syncers == 1:  # of several, the first may end without hearing of what the others got last
                self.check_bytes(run, summary, encoding, encoding)
            self.assert_all_held_what_was_published(run)

    def test_whoever_missed_an_update_gets_the_whole(self):
        run = self.start(train__steps=ENDLESS, sync__suspect=1, sync__expel=100, wire__up="e3m0",
                         wire__down="e3m0", chaos="drop learner=1 step=60 seconds=3")
        run.wait_for("messages were lost", lambda: any("fault" in entry for entry in run.events()))
        fault = next(entry["t"] for entry in run.events() if "fault" in entry) * 1e-9

        def holds_all_newly(learner):
            held = [entry["event"]["held"] for entry in run.events()
                    if entry.get("event", {}).get("type") == "report"
                    and entry["event"]["learner"] == learner]
            merged = [0] * run.option("sync.fragments")
            for row in run.metrics():
                if "round" in row and row["t"] < fault + 3:
                    merged[row["fragment"]] = row["version"]
            return all(have >= was for have, was in zip(held[-1], merged))

        run.wait_for("the cut was over",
                     lambda: any(row["t"] > fault + 3 for row in run.metrics()))
        run.wait_for("it held what it had missed", lambda: holds_all_newly(1))
        run.stop()
        self.assertEqual(run.finish(TRY_AGAIN)["losses"], 0)
        self.assert_all_held_what_was_published(run)

    def test_learner_and_syncer_die(self):
        for down in ("bf16", "e3m0"):
            self.let_learner_and_syncer_die(down)

    def let_learner_and_syncer_die(self, down):
        run = self.start(out=self.folder / down, train__steps=2500, sync__standby=1, wire__up="e3m0",
                         wire__down=down, record="fragments")
        run.wait_until_training()
        life = run.kill_learner(1)
        run.wait_for_rejoin(1, life + 1)
        self.assertEqual(run.status()["syncer"]["term"], 0)
        run.kill(run.status()["syncer"]["pid"])
        run.wait_for("the standby took over", lambda: run.status()["syncer"]["term"] == 1)
        summary = run.finish(DONE)
        self.check_trained(summary)
        self.assertEqual((summary["losses"], summary["rejoins"]), (1, 1))
        back = run.rows_of(1, 1)[0]["t"]
        after = [row for row in run.metrics() if "round" in row and row["t"] > back]
        self.assertTrue(any(1 in row["contributors"] for row in after))
        self.assert_all_held_what_was_published(run)
        done = subprocess.run([PROGRAM, "replay", str(run.out), "--json"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(json.loads(done.stdout)["recomputed"], 0)


if __name__ == "__main__":
    unittest.main()
