"""Jobs across several hosts (network namespaces, hosts.py): a rank dies, a link is cut, a host is lost."""

import os
import pathlib
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mpi"))

from job import DONE, ENDLESS, JOB_SECONDS, TRY_AGAIN, MpiTest  # noqa: E402
from guests import Guest  # noqa: E402
import hosts as network  # noqa: E402

HOSTS = ["h1", "h2", "h3"]

ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")  # the job's own


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


class HostsTest(MpiTest):

    def setUp(self):
        super().setUp()
        for host in HOSTS:
            self.hosts.mend(host)

    def on_launching_host(self, command):
        return self.hosts.on("h1", command)

    def environment(self):
        return {name: value for name, value in self.hosts.environment().items()
                if name.startswith("PRTE_") or
                (name.startswith("OMPI_") and name not in ROOT)}

    def start_on_hosts(self, *launch, **options):
        return self.start(launch=["--hosts", ",".join(HOSTS), *launch], train__steps=ENDLESS,
                          sync__suspect=1, **options)

    def learners_on(self, run, host):
        return [entry for entry in run.status()["learners"]
                if entry["host"] == host and entry["id"] is not None and entry["state"] != "lost"]

    def rounds_go_on(self, run):
        before = run.status()["round"]
        run.wait_for("rounds went on", lambda: run.status()["round"] > before + 4)

    def test_a_rank_dies_and_a_link_is_cut_for_a_moment(self):
        run = self.start_on_hosts(sync__expel=100)
        run.wait_until_training()
        self.assertEqual({entry["host"] for entry in run.status()["learners"]}, set(HOSTS))

        with self.subTest("a rank dies"):
            victim = self.learners_on(run, "h2")[0]
            run.kill(victim["pids"][0])
            run.wait_for_rejoin(victim["id"], victim["incarnation"] + 1)
        self.rounds_go_on(run)

        with self.subTest("a link is cut for a moment"):
            cut_off = self.learners_on(run, "h3")
            self.assertTrue(cut_off)
            losses = run.status()["losses"]
            self.hosts.cut("h3")
            run.wait_for("the learners beyond the cut were suspected", lambda: all(
                run.learner(entry["id"])["state"] == "suspect" for entry in cut_off))
            self.rounds_go_on(run)
            self.hosts.mend("h3")
            run.wait_for("they counted again", lambda: all(
                run.is_active(entry["id"], entry["incarnation"]) for entry in cut_off))
            self.assertEqual(run.status()["losses"], losses)

        run.stop()
        run.finish(TRY_AGAIN)

    def test_a_guest_on_another_host(self):
        """It shares nothing with the run but a connection: its host's end is no more than its own."""
        run = self.start(launch=["--hosts", "h1,h2"], train__steps=ENDLESS, sync__suspect=1, sync__expel=4,
                         sync__spares=0, sync__listen="0.0.0.0:0")
        run.wait_until_training()
        guest = Guest(self, run.out, on=lambda command: self.hosts.on("h3", command),
                      environment=self.hosts.environment())
        run.wait_for("the guest trained", lambda: run.is_active(3))
        self.assertEqual(run.learner(3)["host"], "h3")

        self.hosts.cut("h3")
        run.wait_for("the guest was suspected", lambda: run.learner(3)["state"] == "suspect")
        self.hosts.mend("h3")
        run.wait_for("it counted again", lambda: run.is_active(3))

        self.hosts.lose("h3")
        run.wait_for("its place was gone with it", lambda: run.learner(3) is None)
        self.assertEqual(run.status()["learners_wanted"], 3)
        self.rounds_go_on(run)
        self.assertTrue(run.all_active())
        self.assertNotIn("launcher", run.status())
        self.assertIsNotNone(guest.process.wait())
        run.stop()
        run.finish(TRY_AGAIN)

    def test_a_rank_on_another_host_stands_still_at_the_start(self):
        run = self.start(launch=["--hosts", ",".join(HOSTS), "--start-seconds", "20"], train__steps=60)
        run.freeze_at_start(2)  # the syncer and its standby are on the first two hosts
        self.assertEqual(run.wait(), DONE)
        line = next(line for line in run.log().splitlines() if "waits in vain" in line)
        self.assertIn("rank 2 (learner 0 on h3) has", line)
        self.assertNotIn("rank 1", line)
        self.assertEqual(run.finish(DONE)["outcome"], "complete")
        self.assertEqual(list(run.out.glob(".start*")), [])

    def test_a_link_stays_cut(self):
        # One spare beyond the cut, one on this side.
        run = self.start_on_hosts(sync__spares=2, sync__expel=4)
        run.wait_until_training()
        cut_off = self.learners_on(run, "h3")
        self.hosts.cut("h3")
        run.wait_for("a learner beyond the cut lives again on this side", lambda: any(
            run.is_active(entry["id"], entry["incarnation"] + 1) for entry in cut_off))
        self.rounds_go_on(run)
        run.stop()
        run.finish(TRY_AGAIN)

    def test_a_host_is_lost(self):
        """MPI's launcher gives up; the ranks on the other hosts go on without it."""
        run = self.start_on_hosts(sync__spares=2, sync__expel=4)
        run.wait_until_training()
        on_lost = self.learners_on(run, "h3")
        others = [entry for entry in run.status()["learners"]
                  if entry["id"] is not None and entry["host"] != "h3"]
        self.assertTrue(on_lost and others)
        lost_at = time.monotonic()
        self.hosts.lose("h3")
        run.wait_for("the run knew that mpirun is gone",
                     lambda: run.status().get("launcher") == "gone")
        self.rounds_go_on(run)
        run.wait_for("its learners live again elsewhere", lambda: all(
            run.is_active(entry["id"], entry["incarnation"] + 1) for entry in on_lost))
        print(f"learners of the lost host trained again after {time.monotonic() - lost_at:.1f} s",
              file=sys.stderr)
        run.wait_for("the launcher told it", lambda: "the run goes on without it" in run.log())
        for entry in others:
            self.assertTrue(run.is_active(entry["id"], entry["incarnation"]))
            self.assertEqual(run.learner(entry["id"])["incarnation"], entry["incarnation"])

        with self.subTest("a rank dies that nobody tells of"):
            victim = self.learners_on(run, "h2")[0]
            run.kill(victim["pids"][0])
            run.wait_for("its place was given away or is free", lambda: run.learner(
                victim["id"])["incarnation"] > victim["incarnation"]
                or run.learner(victim["id"])["state"] == "lost")
            self.rounds_go_on(run)
        pids = [pid for entry in run.status()["learners"] for pid in entry["pids"]]
        run.stop()
        self.assertEqual(run.wait(), TRY_AGAIN, run.log_end())
        self.assertEqual(run.summary()["outcome"], "stopped")
        self.assertEqual(sum("settings" in entry for entry in run.events()), 1, "it started again")
        self.wait_for_the_end_of(pids)
        self.assertEqual(list(run.out.glob(".launcher*")), [])

    def wait_for_the_end_of(self, pids):
        deadline = time.monotonic() + JOB_SECONDS
        while any(is_running(pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline, "ranks were left behind")
            time.sleep(0.1)

    def test_each_host_has_a_syncer(self):
        run = self.start_on_hosts("--syncers", "3", "--restarts", "1")
        run.wait_until_training()
        syncers = [run.status()["syncer"], *run.status()["other_syncers"]]
        self.assertEqual([syncer["host"] for syncer in syncers], HOSTS)
        self.rounds_go_on(run)
        victim = self.learners_on(run, "h2")[0]
        run.kill(victim["pids"][0])
        run.wait_for_rejoin(victim["id"], victim["incarnation"] + 1)
        self.rounds_go_on(run)
        run.wait_for("a global checkpoint", lambda: list(run.out.glob("checkpoints/global-*.h5")))
        seen = len(run.events())
        self.hosts.lose("h3")
        def merged_again():
            entries = run.events()[seen:]
            start = next((i for i, entry in enumerate(entries) if "settings" in entry), len(entries))
            return any(action["type"] == "publish" for entry in entries[start:]
                       for action in entry.get("actions", []))
        run.wait_for("rounds went on in another start", merged_again)
        self.assertIn("host h3 does not answer; going on without it", run.log())
        self.assertLessEqual({entry["host"] for entry in run.status()["learners"]}, {"h1", "h2"})
        run.stop()
        self.assertEqual(run.wait(), TRY_AGAIN, run.log_end())
        self.assertEqual(run.summary()["outcome"], "stopped")


if __name__ == "__main__":
    HostsTest.hosts = network.make_for_test(len(HOSTS))
    unittest.main()
