"""scripts/slurm/several-nodes.sbatch and gpu-nodes.sbatch against a real Slurm of five nodes, which are network
namespaces (tests/hosts/hosts.py), each with a slurmd of its own."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from slurm import HERE, SlurmTest, skip_unless_usable, wait_for

sys.path.insert(0, str(HERE.parent / "hosts"))

import hosts as network  # noqa: E402

# The first four are not two of each kind.
FEATURES = {"h1": "a100", "h2": "a100", "h3": "a100", "h4": "h100", "h5": "h100"}


def hosts_of(status):
    return {entry["host"] for entry in status["learners"] if entry["host"]}


class SeveralNodes(SlurmTest):
    NODES = [network.SWITCH, *(word for node in FEATURES.items() for word in node)]

    def nodes_of_job(self):
        shown = subprocess.run(["scontrol", "show", "hostnames", self.job_field("NodeList")],
                               check=True, capture_output=True, text=True)
        return shown.stdout.split()

    def mark_down(self, node):
        """As slurmctld does when a node has been silent for SlurmdTimeout."""
        subprocess.run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost"],
                       check=True)

    def said(self, pattern):
        return re.search(pattern, self.log_path.read_text())

    def newest_checkpoint(self):
        return max(int(path.stem.split("-")[1])
                   for path in self.run_folder.glob("checkpoints/global-*.h5"))

    def test_a_rank_dies_a_node_is_lost_and_the_job_comes_back(self):
        self.submit("several-nodes.sbatch", "nodes", "--nodes=3",
                    options={"checkpoint.global_rounds": 10, "sync.spares": 2})
        status = self.wait_for_round(20)
        nodes = self.nodes_of_job()
        self.assertEqual(hosts_of(status), set(nodes))
        self.assertEqual(status["syncer"]["host"], nodes[0])

        victim = next(entry for entry in status["learners"] if entry["host"] == nodes[1])
        os.kill(victim["pids"][0], signal.SIGKILL)
        wait_for(lambda: self.status()["rejoins"] == 1, "the rejoin")

        # What is left of the run trains on, also when Slurm knows and ends the step, and mpirun with it.
        self.hosts.lose(nodes[2])
        self.wait_for_round(self.status()["round"] + 20)
        self.mark_down(nodes[2])
        wait_for(lambda: self.said("the run goes on without it"), "the end of mpirun")
        self.wait_for_round(self.status()["round"] + 20)
        wait_for(lambda: all(entry["host"] in [None, *nodes[:2]] for entry in self.status()["learners"]
                             if entry["state"] != "spare"), "the lost learners' places to be free")
        self.assertFalse(self.said("starting it again"))
        self.assertEqual(self.job_field("Restarts"), "0")

        subprocess.run(["scancel", "--signal=USR1", "--batch", self.job], check=True)
        self.wait_for_requeue()
        stopped = self.summary()
        self.assertEqual(stopped["exit_code"], 75)
        self.assertEqual(stopped["outcome"], "stopped")
        status = self.wait_for_round(stopped["rounds"] + 20)
        self.assertEqual(hosts_of(status), set(self.nodes_of_job()))
        self.assertNotIn(nodes[2], hosts_of(status))
        self.assertGreater(status["tokens"], stopped["tokens"])

    def test_each_island_has_a_gpu_node(self):
        # No GPU is here, only the scheduling is Slurm's own.
        self.submit("gpu-nodes.sbatch", "gpu",
                    options={"device": "cpu", "sync.ranks_per_learner": 2})
        status = self.wait_for_round(10)
        nodes = self.nodes_of_job()
        self.assertEqual(sorted(FEATURES[node] for node in nodes), ["a100", "a100", "h100", "h100"])
        islands = status["learners"]
        self.assertEqual([entry["state"] for entry in islands], ["active"] * 3 + ["spare"])
        self.assertEqual(sorted(entry["host"] for entry in islands), nodes)
        for entry in islands:
            self.assertEqual(len(entry["pids"]), 2)
            for pid in entry["pids"]:
                self.assertIn(pid, self.hosts.processes(entry["host"]))
                self.assertIn(b"SLURM_GPUS_ON_NODE=4",
                              pathlib.Path(f"/proc/{pid}/environ").read_bytes())

    def test_the_first_node_is_lost(self):
        self.submit("several-nodes.sbatch", "first", "--nodes=3",
                    options={"checkpoint.global_rounds": 10, "sync.spares": 1})
        self.wait_for_round(20)
        nodes = self.nodes_of_job()
        self.hosts.lose(nodes[0])
        wait_for(lambda: self.status()["syncer"]["host"] == nodes[1], "the standby to take over")
        before = self.wait_for_round(self.status()["round"] + 20)
        newest = self.newest_checkpoint()
        self.mark_down(nodes[0])
        self.wait_for_requeue()
        first = wait_for(lambda: self.said(r"goes on from round (\d+)"), "the next start")
        self.assertGreaterEqual(int(first[1]), newest)
        # Until then the status is the standby's, which has trained on meanwhile.
        wait_for(lambda: self.status()["syncer"]["term"] == 0, "the status of the next start")
        status = self.wait_for_round(before["round"] + 20)
        self.assertNotIn(nodes[0], hosts_of(status))
        self.assertGreater(status["tokens"], before["tokens"])


if __name__ == "__main__":
    skip_unless_usable()
    SeveralNodes.hosts = network.make_for_test(len(FEATURES))
    unittest.main()
