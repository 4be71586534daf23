"""The program as a user calls it: help, versions, and one line with the right exit code for whatever is
wrong on the command line, in a file or in the environment."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from command import BAD_DATA, CONFIGURATION, DONE, PROGRAM, TRY_AGAIN, USAGE, CommandTest, run

FUZZ = pathlib.Path(__file__).parents[1] / "fuzz/run"


class Commands(CommandTest):

    def launch(self, *options):
        return ("launch", "--", "--out", self.folder / "run", "--data.path", "x.h5", *options)

    def ini(self, text):
        path = self.folder / "bad.ini"
        path.write_text(text)
        return path

    def test_help_of_every_command(self):
        listed = run("--help")
        self.assertEqual(listed.returncode, DONE)
        commands = re.findall(r"^  ([a-z]+)  ", listed.stdout, re.MULTILINE)
        self.assertIn("train", commands)
        self.assertIn("launch", commands)
        for command in commands:
            result = run(command, "--help")
            self.assertEqual((result.returncode, result.stderr), (DONE, ""), command)
            self.assertIn(f"archipelago {command}", result.stdout)

    def test_version_names_the_libraries(self):
        result = run("--version")
        self.assertEqual(result.returncode, DONE)
        self.assertRegex(result.stdout, r"\Aarchipelago \d+\.\d+\.\d+ \(.+\)\n")
        self.assertRegex(result.stdout, r"\nMPI: Open MPI v5\S+ with fault tolerance \(ULFM\) in /")
        for word in ("HDF5: 1.", "Boost: "):
            self.assertIn(word, result.stdout)
        self.assertRegex(result.stdout, r"\nCUDA: (not built in\n|\d\d\.\d+\nNCCL: 2\.\d+\.\d+\n"
                         r"cuDNN: 9\.\d+\.\d+\n)\Z")

    def test_wrong_command_lines(self):
        self.assert_refused(USAGE, ["--help"])
        self.assert_refused(USAGE, ["'lunch'", "launch"], "lunch")
        self.assert_refused(USAGE, ["'status'", "watch"], "status", "run")
        self.assert_refused(USAGE, ["--learner", "--learners"], "launch", "--learner", "3")
        self.assert_refused(USAGE, ["'stray'"], "launch", "stray")
        self.assert_refused(USAGE, ["--config", "lone --"], "launch", "--config", "x.ini")
        self.assert_refused(USAGE, ["--sync.quorum", "lone --"], "launch", "--sync.quorum=1")
        self.assert_refused(USAGE, ["--data.path", "lone --", "join RUN"], "join", "run", "--data.path", "x.h5")
        self.assert_refused(USAGE, ["--out"], "launch", "--", "--data.path", "x.h5")
        self.assert_refused(USAGE, ["'host.invalid'"], "launch", "--hosts",
                            "localhost,host.invalid", *self.launch()[1:])
        for hosts in ("", " ", "a,,b", ",a", "a,"):
            self.assert_refused(USAGE, ["--hosts", "empty"], "launch", "--hosts", hosts, *self.launch()[1:])
        self.assert_refused(USAGE, ["--data.path"], "launch", "--", "--out", "run")
        self.assert_refused(USAGE, ["--out"], "train")
        self.assert_refused(USAGE, ["--sync.quorom", "--sync.quorum"],
                            *self.launch("--sync.quorom", "1"))
        self.assert_refused(USAGE, ["--chaos", "one line"], *self.launch("--chaos", "kill\nall"))
        self.assert_refused(USAGE, ["--train.lr", "-1", "above 0"], *self.launch("--train.lr=-1"))
        self.assert_refused(USAGE, ["--sync.learners", "twice"], "launch", "--learners", "3",
                            *self.launch("--sync.learners", "3")[1:])
        self.assertFalse((self.folder / "run").exists())

    def test_times_that_round_to_nothing(self):
        self.assert_refused(USAGE, ["--train.step_seconds", "1e-10"], "simulate", "--train.step_seconds", "1e-10")
        self.assert_refused(USAGE, ["--model.layers", "0.5"], "simulate", "--model.layers", "0.5")

    def test_a_prediction_takes_nothing_else(self):
        for option in ("--config=x.ini", "--sweep=learners=1,8", "--cluster.chips=5"):
            self.assert_refused(USAGE, [option.split("=")[0], "--from"], "simulate", "--from", "run",
                                option, "--json")

    def test_a_folder_without_a_checkpoint(self):
        for command in (["evaluate"], ["inspect"], ["inspect", "--verify"],
                        ["sample", "--prompt", "x"]):
            self.assert_refused(BAD_DATA, [str(self.folder), "checkpoints/global-ROUND.h5"],
                                *command, self.folder)
        self.assert_refused(BAD_DATA, [str(self.folder)], "export", self.folder, "new.safetensors")

    def test_wrong_files(self):
        bad = self.ini("[sync]\nlearners = 3\nquorom = 1\n")
        self.assert_refused(CONFIGURATION, [f"{bad}, line 3", "sync.quorum"],
                            *self.launch("--config", bad))
        bad = self.ini("[train]\nlr = fast\n")
        self.assert_refused(CONFIGURATION, [f"{bad}, line 2", "fast"],
                            *self.launch("--config", bad))
        missing = self.folder / "missing.ini"
        self.assert_refused(CONFIGURATION, [str(missing)], *self.launch("--config", missing))
        self.assert_refused(CONFIGURATION, ["sync.quorum (4)", "sync.suspect (40)"],
                            *self.launch("--sync.quorum", "4", "--sync.suspect", "40"))
        self.assertFalse((self.folder / "run").exists())

    def text(self):
        path = self.folder / "text.txt"
        path.write_text("In the beginning\n" * 100)
        return path

    def test_no_command_writes_over_what_it_reads(self):
        text = self.text()
        link = self.folder / "link.txt"
        link.symlink_to(text)
        for out in (text, link):
            self.assert_refused(CONFIGURATION, [str(out)], "prepare", "text", text, "--out", out,
                                "--force")
        for command in ("export", "import"):
            self.assert_refused(CONFIGURATION, [str(link)], command, text, link, "--force")
        self.assertEqual(text.read_text(), "In the beginning\n" * 100)

    def test_files_that_are_none(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        text, data = self.text(), self.folder / "data.h5"
        self.assertEqual(run("prepare", "text", text, "--out", data, "--source", "a#b").returncode,
                         DONE)
        for odd in (pipe, self.folder, "/dev/null"):
            self.assert_refused(BAD_DATA, [str(odd)], "inspect", odd)
            self.assert_refused(BAD_DATA, [str(odd)], "evaluate", odd, "--data", data)
        for odd in (self.folder, self.folder / "missing"):
            self.assert_refused(BAD_DATA, [str(odd)], "prepare", "text", odd, "--out",
                                self.folder / "x.h5")
        for device in ("/dev/zero", "/dev/null"):
            self.assert_refused(BAD_DATA, [device, "is a device"], "prepare", "text", text, device, "--out",
                                self.folder / "x.h5")
        with subprocess.Popen(["cat", text], stdout=subprocess.PIPE) as piped:
            result = subprocess.run([PROGRAM, "prepare", "text", "/dev/stdin", "--out", self.folder / "piped.h5"],
                                    stdin=piped.stdout, capture_output=True, text=True)
        self.assertEqual(result.returncode, DONE, result.stderr)
        # A new file would take their place.
        link = self.folder / "link"
        link.symlink_to(data)
        for odd in (pipe, link, self.folder):
            for command in (("prepare", "text", text, "--out", odd, "--force"),
                            ("import", text, odd, "--force"), ("simulate", "--csv", odd),
                            ("simulate", "--chart", odd)):
                self.assert_refused(CONFIGURATION, [str(odd), "no regular file"], *command)
        self.assertTrue(pipe.is_fifo() and link.is_symlink())
        self.assert_refused(USAGE, ["--vocabulary", "or bytes"], "prepare", "text", text, "--out",
                            self.folder / "x.h5", "--vocabulary", "chars")

    def test_names_that_are_no_utf8(self):
        odd = os.fsencode(self.folder) + b"/\xff"
        plan = subprocess.run([PROGRAM, "launch", "--print", "--json", "--", "--out", odd,
                               "--data.path", "x.h5"], capture_output=True)
        self.assertEqual(plan.returncode, DONE, plan.stderr)
        self.assertIn("\ufffd", plan.stdout.decode())
        verified = subprocess.run([PROGRAM, "inspect", "--verify", "--json", odd],
                                  capture_output=True)
        self.assertEqual(verified.returncode, BAD_DATA, verified.stderr)
        self.assertFalse(json.loads(verified.stdout)["intact"])

    def test_wrong_environment(self):
        self.assert_refused(CONFIGURATION, ["ARCHIPELAGO_SYNC_QUOROM", "ARCHIPELAGO_SYNC_QUORUM"],
                            *self.launch(), ARCHIPELAGO_SYNC_QUOROM="1")

    def test_print_shows_the_whole_job(self):
        result = run("launch", "--learners", "2", "--print", "--json",
                     *self.launch("--sync.spares", "2")[1:], ARCHIPELAGO_TRAIN_BATCH="32")
        self.assertEqual(result.returncode, DONE, result.stderr)
        plan = json.loads(result.stdout)
        self.assertEqual(plan["world"], 5)
        command = plan["command"]
        self.assertEqual(command[command.index("-n") + 1], "5")
        for option in ("--sync.learners=2", "--sync.spares=2", "--train.batch=32",
                       f"--out={self.folder}/run"):
            self.assertIn(option, command)
        self.assertFalse((self.folder / "run").exists())

    def test_there_is_no_run_to_resume(self):
        # As where a run's folder was moved away while it trained.
        (self.folder / "run" / "checkpoints").mkdir(parents=True)
        for name in ("run", "missing"):
            self.assert_refused(CONFIGURATION, [str(self.folder / name), "config.ini", "no run"], "launch", "--",
                                "--out", self.folder / name, "--resume")

    def test_a_resumed_job_takes_nothing_more_from_its_folder(self):
        # An empty value can be given to launch, but to no rank.
        run_folder = self.folder / "run"
        run_folder.mkdir()
        (run_folder / "config.ini").write_text("chaos = kill time=1\n[data]\npath = x.h5\n")
        plan = json.loads(run("launch", "--print", "--json", "--", "--out", run_folder, "--resume",
                              "--chaos", "").stdout)
        words = plan["command"][plan["command"].index("train"):]
        self.assertNotIn("--chaos=kill time=1", words)
        self.assertIn(f"--data.path={pathlib.Path.cwd() / 'x.h5'}", words)
        self.assertIn("--config=/dev/null", words)

    def test_a_dry_run_tells_what_a_run_needs(self):
        for command in (("train",), ("launch", "--")):
            result = run(*command, "--dry-run", "--model.size", "124M", "--sync.fragments", "4",
                         "--sync.interval", "8", "--train.batch", "1")
            self.assertEqual(result.returncode, DONE, result.stderr)
            # As Hugging Face counts gpt2; 4 bytes each are 474.7 MiB, an eighth of which a step.
            self.assertIn("parameters 124,439,808; in 148 tensors and 4 fragments", result.stdout)
            self.assertIn("parameters 474.7 MiB, gradients 474.7 MiB, moments 949.4 MiB",
                          result.stdout)
            self.assertIn("59.3 MiB a learner and inner step", result.stdout)
            # Parameters and momentum; three learners of parameters and two moments; 3 kept and one.
            self.assertIn("a global one 949.4 MiB, one of every learner 4.2 GiB; 3 of each are kept, "
                          "and one on its way: together 20.4 GiB", result.stdout)
            self.assertNotIn("free in", result.stdout)
            # Two of parameters and momentum; flat parameters, and a model with gradients and activations.
            self.assertIn("a checkpoint on its way 949.4 MiB, a validation ", result.stdout)
            self.assertIn("the syncer (0), learner 0 (1), learner 1 (2), learner 2 (3), spare 0 (4)\n",
                          result.stdout)
            # Mean bits a second of an exchange for steps of a second.
            self.assertIn("0.4978 Gbit/s a learner on average, 1.4933 Gbit/s at the syncer",
                          result.stdout)
        validation = lambda *more: float(re.search(r"a validation ([0-9.]+) GiB", run(
            "train", "--dry-run", "--model.size", "124M", *more).stdout).group(1))
        self.assertAlmostEqual(validation("--checkpoint.validate", "true") - validation(), 949.4 / 1024, delta=0.15)
        lock_step = run("train", "--dry-run", "--model.size", "124M", "--method", "data-parallel").stdout
        # One file, at the end; 4/3 of the gradients each way.
        self.assertIn("a global one 949.4 MiB, at the end\n", lock_step)
        self.assertIn("632.9 MiB each way a learner and inner step", lock_step)
        self.assertNotIn("syncer", lock_step)
        on_hosts = run("launch", "--hosts", "h1,h2,h3", "--learners", "2", "--ranks-per-learner", "2",
                       "--", "--dry-run", "--model.vocabulary", "256", "--sync.spares", "0",
                       "--out", self.folder / "not" / "there")
        self.assertEqual(on_hosts.returncode, DONE, on_hosts.stderr)
        self.assertIn("ranks, 6 in all:\n  h1: the syncer (0), learner 1 (4 to 5)\n"
                      "  h2: standby 1 (1)\n  h3: learner 0 (2 to 3)\n", on_hosts.stdout)
        self.assertIn(f"free in {self.folder}: ", on_hosts.stdout)
        full = run("train", "--dry-run", "--model.vocabulary", "256", "--out", "/proc")
        self.assertIn("free in /proc: 0 B, which is too little\n", full.stdout)
        kept = run("train", "--dry-run", "--model.vocabulary", "256", "--train.steps", "1000", "--sync.interval",
                   "10", "--sync.fragments", "5", "--checkpoint.keep_every", "100")
        self.assertIn("3 of each are kept, and one on its way, and 5 global ones for ever: together", kept.stdout)
        self.assert_refused(USAGE, ["--model.vocabulary"], "train", "--dry-run")
        self.assert_refused(BAD_DATA, ["x.h5", "prepare text"], "train", "--dry-run", "--data.path", "x.h5")
        self.assert_refused(BAD_DATA, ["x.h5", "prepare images"], "train", "--dry-run", "--data.path", "x.h5",
                            "--model.kind", "vit")
        data = self.folder / "little.h5"
        self.assertEqual(run("prepare", "text", self.text(), "--out", data).returncode, DONE)
        self.assert_refused(BAD_DATA, ["too few"], "train", "--dry-run", "--data.path", data,
                            "--model.context", "1000")
        for address, words in (("host", "HOST:PORT"), ("host:70000", "above 65535")):
            for command in (("train", "--dry-run", "--model.vocabulary", "256"),
                            ("launch", "--print", *self.launch()[1:])):
                self.assert_refused(CONFIGURATION, ["sync.listen", words], *command, "--sync.listen", address)
        self.assert_refused(CONFIGURATION, ["chaos"], "train", "--dry-run", "--model.vocabulary",
                            "256", "--chaos", "kill learner=7 step=1")

    def run_folder(self):
        run_folder = self.folder / "a run"
        run_folder.mkdir()
        (run_folder / "metrics.jsonl").write_text(
            '{"t":1,"learner":0,"incarnation":0,"step":1,"tokens":64,"loss":2.5,"step_s":0.5,"blocked_s":0}\n')
        (run_folder / "status.json").write_text(json.dumps({
            "state": "done", "round": 3, "tokens": 64, "token_budget": 64,
            "learners": [{"id": 0, "state": "ended", "step": 1, "tokens": 64}]}))
        return run_folder

    def test_report_and_watch(self):
        run_folder = self.run_folder()
        for _ in range(2):  # a run's own page is written anew
            result = run("report", run_folder)
            self.assertEqual((result.returncode, result.stderr), (DONE, ""))
            self.assertEqual(result.stdout, f"{run_folder}/report.html\n")
        self.assertIn("training loss", (run_folder / "report.html").read_text())
        page = self.folder / "page.html"
        other = self.folder / "other"
        shutil.copytree(run_folder, other)
        self.assertEqual(run("report", run_folder, other, "--out", page).returncode, DONE)
        self.assert_refused(USAGE, ["twice"], "report", run_folder, f"{run_folder}/../a run",
                            "--out", page, "--force")
        self.assert_refused(CONFIGURATION, ["--force"], "report", run_folder, "--out", page)
        self.assert_refused(USAGE, ["--out"], "report", run_folder, other)
        self.assert_refused(CONFIGURATION, ["metrics.jsonl"], "report", self.folder)

        result = run("watch", run_folder)
        self.assertEqual((result.returncode, result.stderr), (DONE, ""))
        self.assertIn("done after 1 s, round 3\n64 of 64 tokens (100.0 %)\n", result.stdout)
        self.assertIn("2.5000", result.stdout)
        status = json.loads((run_folder / "status.json").read_text())
        (run_folder / "status.json").write_text(json.dumps({**status, "state": "training"}))
        self.assertEqual(run("watch", run_folder).returncode, DONE)
        os.utime(run_folder / "status.json", (0, 0))
        silent = run("watch", run_folder)
        self.assertEqual((silent.returncode, silent.stderr), (TRY_AGAIN, ""))
        self.assertRegex(silent.stdout.splitlines()[0], r": silent for .* \(was training\), round 3$")
        self.assert_refused(CONFIGURATION, ["status.json"], "watch", self.folder)
        (run_folder / "status.json").write_text('{"state": 5, "learners": []}')
        self.assert_refused(BAD_DATA, ["status.json"], "watch", run_folder)

    def test_fuzzing_ends(self):
        # To libFuzzer 0 is for ever.
        for seconds in ("0", "-1", "1s", ""):
            result = subprocess.run([FUZZ, seconds], capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stdout), (USAGE, ""))
            self.assertRegex(result.stderr, r"\Ausage: tests/fuzz/run [^\n]+\n\Z")

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE,
                                    text=True)
        self.assertEqual(result.returncode, CONFIGURATION)
        self.assertRegex(result.stderr, r"\Aarchipelago: [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main()
