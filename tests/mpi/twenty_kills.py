"""Twenty kills in a row in one job, through the launcher: each learner in turn, some of them before
the one before is back."""

import os
import unittest

from job import BATCH_TOKENS, DONE, MpiTest

KILLS = 20
LEARNERS = 3
STEPS = int(os.environ.get("TEST_STEPS", "3000"))
SPARES = int(os.environ.get("TEST_SPARES", KILLS))
REFILL = int(os.environ.get("TEST_REFILL", 0))
STANDBY = int(os.environ.get("TEST_STANDBY", 0))


def plan(victims):
    """Of the first `victims` learners, two at about the same time, then the next two, all by their
    steps: so it doesn't depend on the machine's speed. TEST_SECONDS: at random times, so far apart
    on average."""
    if seconds := os.environ.get("TEST_SECONDS"):
        seed = os.environ.get("TEST_SEED", "1")
        return f"kill learner=turn every={seconds} count={KILLS} seed={seed}"
    return "; ".join(f"kill learner={kill % victims} step={60 + 120 * (kill // 2)}"
                     for kill in range(KILLS))


# Of a process of a tiny model, beyond which it leaks: the windows of twenty dead are far smaller.
GROWN_KIB = 24 << 10
GROWN_DESCRIPTORS = 8 + 2 * REFILL * KILLS


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status if ":" in line)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Usage:
    """Memory (KiB) and descriptors of the processes that have trained, when first and last seen."""

    def __init__(self):
        self.first, self.last = {}, {}

    def look(self, run):
        status = run.status()
        pids = {status["syncer"]["pid"]: "syncer"}
        for entry in status["learners"]:
            if entry["state"] == "active" and entry["step"] > 0:
                pids[entry["pids"][0]] = f"learner {entry['id']} life {entry['incarnation']}"
        for pid, name in pids.items():
            try:
                usage = (resident_kib(pid), descriptors(pid))
            except (OSError, KeyError):  # gone, or a zombie
                continue
            self.first.setdefault(name, usage)
            self.last[name] = usage

    def grown(self):
        return {name: tuple(b - a for a, b in zip(self.first[name], last))
                for name, last in self.last.items()}


class TwentyKills(MpiTest):

    def twenty_kills(self, victims):
        run = self.start(launch="TEST_BTL" not in os.environ, chaos=plan(victims),
                         train__steps=STEPS, sync__spares=SPARES, sync__refill=REFILL,
                         sync__standby=STANDBY)
        run.wait_until_training()
        usage = Usage()

        def over():
            usage.look(run)
            return run.summary() is not None

        run.wait_for("the end", over)
        summary = run.finish(DONE)
        if "TEST_BTL" not in os.environ:
            self.assertEqual(run.wait(), DONE)  # the launcher's; mpirun's own is no verdict
        rejoined = [entry["rejoined"] for entry in run.events() if "rejoined" in entry]
        back = {(life["learner"], life["incarnation"]) for life in rejoined}
        killed = [entry["fault"] for entry in run.events() if "fault" in entry]
        self.assertEqual(len(killed), KILLS)
        again = [life for life in killed if life["incarnation"] > 0
                 and (life["learner"], life["incarnation"]) not in back]  # while they were joining
        self.assertEqual((summary["losses"], summary["rejoins"]), (KILLS, KILLS - len(again)),
                         run.log_end())
        self.assertEqual(len(rejoined), KILLS - len(again))
        self.assertGreaterEqual(summary["tokens"], STEPS * LEARNERS * BATCH_TOKENS)
        self.assert_tokens_counted_once(run)
        for name, (kib, files) in usage.grown().items():
            self.assertLess(kib, GROWN_KIB, name)
            self.assertLess(files, GROWN_DESCRIPTORS, name)
        median = sorted(summary["rejoin_s"])[len(rejoined) // 2]
        print(f"{len(again)} killed while joining, back after {median:.3f} s (median)", flush=True)
        return usage

    def test_each_learner_in_turn(self):
        self.twenty_kills(LEARNERS)

    def test_one_lives_through_them_all(self):
        usage = self.twenty_kills(LEARNERS - 1)
        for name in ("syncer", f"learner {LEARNERS - 1} life 0"):
            (kib, files), (more_kib, more_files) = usage.first[name], usage.grown()[name]
            print(f"{name}: {kib} KiB and {more_kib:+}, {files} descriptors and {more_files:+}",
                  flush=True)


if __name__ == "__main__":
    unittest.main()
