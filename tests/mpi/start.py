"""Starts that do not come off: a rank that stands still, an mpirun that fails. The launcher says so
and tries again."""

import os
import unittest

from job import DONE, INTERNAL, MpiTest

# A rank that is late is named beside the one that stands still.
START_SECONDS = 20


class Start(MpiTest):

    def test_a_rank_that_stands_still_is_named_and_the_start_tried_again(self):
        run = self.start(launch=["--start-seconds", str(START_SECONDS)], sync__learners=2,
                         sync__spares=0, train__steps=60)
        run.freeze_at_start(2)
        self.assertEqual(run.wait(), DONE)
        lines = [line for line in run.log().splitlines() if "waits in vain" in line]
        self.assertEqual(len(lines), 1, run.log())
        self.assertIn("rank 2 (learner 1) has", lines[0])
        self.assertIn(f"for {START_SECONDS} s", lines[0])
        self.assertEqual(run.finish(DONE)["outcome"], "complete")

    def start_in_temporary_folder(self, folder, restarts):
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = str(folder)
        try:
            return self.start(launch=["--restarts", str(restarts)], sync__learners=2,
                              sync__spares=0, train__steps=60)
        finally:
            os.environ.pop("TMPDIR")
            if before is not None:
                os.environ["TMPDIR"] = before

    def test_an_mpirun_that_fails_before_any_rank_is_tried_again(self):
        folder = self.folder / "no-folder"  # mpirun cannot make its own in a file
        folder.write_text("")
        run = self.start_in_temporary_folder(folder, 1000)
        run.wait_for("mpirun had failed", lambda: "before any rank began" in run.log())
        folder.unlink()
        folder.mkdir()
        self.assertEqual(run.wait(), DONE)
        self.assertEqual(run.finish(DONE)["outcome"], "complete")

    def test_an_mpirun_that_fails_again_and_again(self):
        folder = self.folder / "no-folder"
        folder.write_text("")
        run = self.start_in_temporary_folder(folder, 2)
        self.assertEqual(run.wait(), INTERNAL)
        self.assertEqual(run.log().count("before any rank began"), 3, run.log())
        self.assertFalse(run.out.exists())


if __name__ == "__main__":
    unittest.main()
