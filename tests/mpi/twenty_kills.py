"""Twenty kills in a row in one job, through the launcher: each learner in turn, some of them before
the one before is back."""

import os
import unittest

from job import BATCH_TOKENS, DONE, MpiTest

KILLS = 20
SEED = int(os.environ.get("TEST_SEED", "1"))
SECONDS = float(os.environ.get("TEST_SECONDS_BETWEEN", "0.3"))  # on average
STEPS = int(os.environ.get("TEST_STEPS", "4000"))
REFILL = int(os.environ.get("TEST_REFILL", "0"))
SPARES = int(os.environ.get("TEST_SPARES", str(KILLS)))
STANDBY = int(os.environ.get("TEST_STANDBY", "0"))

# Of a process of a tiny model, beyond which it leaks: the windows of twenty dead are far smaller.
GROWN_KIB = 24 << 10
GROWN_DESCRIPTORS = 8


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status if ":" in line)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class TwentyKills(MpiTest):

    def test_twenty_kills(self):
        plan = f"kill learner=turn every={SECONDS} count={KILLS} seed={SEED}"
        run = self.start(launch="TEST_BTL" not in os.environ, chaos=plan, train__steps=STEPS, sync__spares=SPARES,
                         sync__refill=REFILL, sync__standby=STANDBY)
        run.wait_until_training()
        syncer = run.status()["syncer"]["pid"]
        before = (resident_kib(syncer), descriptors(syncer))
        last = before

        def over():
            nonlocal last
            try:
                last = (resident_kib(syncer), descriptors(syncer))
            except OSError:
                return True
            return run.summary() is not None

        run.wait_for("the end", over)
        summary = run.finish(DONE)
        if "TEST_BTL" not in os.environ:
            self.assertEqual(run.wait(), DONE)  # the launcher's; mpirun's own is no verdict
        self.assertEqual((summary["losses"], summary["rejoins"]), (KILLS, KILLS), run.log_end())
        self.assertGreaterEqual(summary["tokens"], STEPS * 3 * BATCH_TOKENS)
        self.assert_tokens_counted_once(run)
        self.assertLess(last[0] - before[0], GROWN_KIB)
        self.assertLess(last[1] - before[1], GROWN_DESCRIPTORS)
        print(f"memory {before[0]} -> {last[0]} KiB, descriptors {before[1]} -> {last[1]}, back "
              f"after {sorted(summary['rejoin_s'])[KILLS // 2]:.3f} s (median)", flush=True)


if __name__ == "__main__":
    unittest.main()
