"""What reads a run's folder (scripts/what-happened, scripts/tensorboard, archipelago watch and report), on
folders of which one file is damaged: cut off, empty, binary, of another kind, or with a field of another type.
It tells what it can, or ends with one line and a documented exit code."""

import contextlib
import copy
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["TEST_PROGRAM"]
SCRIPTS = pathlib.Path(os.environ["TEST_SCRIPTS"])
DONE, USAGE, BAD_DATA, TRY_AGAIN, CONFIGURATION = 0, 64, 65, 75, 78
WRONG = [None, "x", "\ud800", True, [], [{}], {"t": "y"}, -1, 0.5, 1e300, 2**63, 10**400]

SECOND = 10**9
TAPE = [
    {"settings": {}},
    {"t": 0, "event": {"type": "island_ready", "island": 0}, "actions": [
        {"type": "assign", "island": 0, "learner": 0}, {"type": "assign", "island": 1, "learner": 1}]},
    {"t": SECOND, "event": {"type": "report", "learner": 0, "step_seconds": 0.5}, "actions": []},
    {"t": 2 * SECOND, "silent": {"learner": 1, "step": 40, "seconds": 3.0}},
    {"t": 3 * SECOND, "heard_again": {"learner": 1, "seconds": 7.5}},
    {"t": 4 * SECOND, "fault": {"kind": "kill", "learner": 1, "step": 7}},
    {"t": 15 * SECOND, "event": {"type": "island_lost", "island": 1, "reason": "its leader died"},
     "actions": [{"type": "assign", "island": 2, "learner": 1}]},
    {"t": 16 * SECOND, "rejoined": {"learner": 1, "incarnation": 1, "seconds": 0.5}},
    {"t": 17 * SECOND, "takeover": {"term": 1, "entries": 7}},
    {"t": 18 * SECOND, "event": {"type": "tick"}, "actions": [
        {"type": "expel", "island": 2, "learner": 1, "reason": "silent"},
        {"type": "retire", "island": 0, "learner": 0}]},
    {"t": 19 * SECOND, "event": {"type": "tick"},
     "actions": [{"type": "finish", "outcome": "stopped", "reason": "the file stop"}]},
]
METRICS = [
    {"t": float(i), "learner": i % 2, "incarnation": 0, "step": i, "tokens": 64 * i, "loss": 2.5, "lr": 0.001,
     "grad_norm": 1.5, "step_s": 0.5, "blocked_s": 0.0, "energy_j": 3.5, "accuracy": 0.5} for i in range(1, 30)
] + [
    {"t": 29.6, "round": 1, "fragment": 0, "version": 1, "contributors": [0, 1], "wait_s": 0.5, "merge_s": 0.1},
    {"t": 29.7, "validated_round": 1, "tokens": 100, "val_loss": 3.25, "val_accuracy": 0.5},
    {"t": 29.8, "checkpoint": "global-1.h5", "bytes": 1000, "seconds": 0.1},
]
STATUS = {
    "state": "training", "round": 3, "syncer": {"host": "a", "pid": 1, "term": 1},
    "learners": [{"id": 0, "incarnation": 0, "host": "a", "pids": [2], "step": 9, "tokens": 64, "state": "active"},
                 {"id": None, "incarnation": None, "host": "a", "pids": [3], "step": 0, "tokens": 0,
                  "state": "spare"}],
    "learners_wanted": 1, "scale": None, "tokens": 64, "token_budget": 128, "losses": 1, "rejoins": 1,
    "other_syncers": [{"host": "b", "pid": 4}]}
SUMMARY = {
    "tokens": 4000, "wall_s": 20.0, "goodput": 0.9, "losses": 1, "rejoins": 1, "rejoin_s": [0.5], "rounds": 9,
    "final_train_loss": 1.25, "final_val_loss": 1.5, "final_val_accuracy": 0.5, "blocked_fraction": 0.01,
    "energy_j": 5.5, "energy_per_token_j": "not available", "bytes_up": 10, "bytes_down": 10,
    "syncer_max_gap_s": 0.1, "merged_share": 0.9, "contributors": 1.5, "dropped": {"late": 2}, "refused": 0,
    "checkpoint_failures": 0, "outcome": "complete", "reason": "all tokens are trained", "exit_code": 0}
CONFIG = "method = decoupled\n[model]\nkind = gpt\n[sync]\nlearners = 2\n"


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


FILES = {"events.jsonl": lines(TAPE), "metrics.jsonl": lines(METRICS), "status.json": json.dumps(STATUS),
         "summary.json": json.dumps(SUMMARY), "config.ini": CONFIG}
WHOLE = [b"", b"\n", b"\0" * 100, bytes(range(256)), b"null", b"[]", b"{}", b"5", b'"x"', b"[[1]]", b"[" * 100_000,
         b'{"state": 5}', b'{"state": "training"}', b'{"state": "training", "learners": [5, null, []]}',
         b'{"outcome": "complete", "tokens": 5}', b'{"a": NaN, "b": Infinity}', b"\xff\xfe{\x00}\x00"]


def script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


def with_one_wrong(value):
    """Copies of it, in each of which one field, at any depth, is of another kind."""
    fields = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in fields:
        for wrong in WRONG:
            changed = copy.copy(value)
            changed[key] = wrong
            yield changed
        if isinstance(inner, (dict, list)):
            for changed_inner in with_one_wrong(inner):
                changed = copy.copy(value)
                changed[key] = changed_inner
                yield changed


class DamagedFolder(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        sys.dont_write_bytecode = True
        cls.scripts = {name: script(name) for name in ("what-happened", "tensorboard")}

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="archipelago-damaged-")
        self.addCleanup(folder.cleanup)
        self.run_folder = pathlib.Path(folder.name) / "run"
        self.run_folder.mkdir()
        for name in FILES:
            self.mend(name)

    def mend(self, name):
        (self.run_folder / name).write_text(FILES[name])

    def put(self, name, content):
        (self.run_folder / name).write_bytes(content)

    def told(self, name, arguments):
        """Exit code, output and errors of a script, run in this process."""
        out, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        code = DONE
        argv = sys.argv
        sys.argv = [name, *map(str, arguments)]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                self.scripts[name].main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv = argv
        out.flush()
        return code, out.buffer.getvalue().decode(), errors.getvalue()

    def check_scripts(self, what, damaged="", names=("what-happened", "tensorboard")):
        for name in names:
            with self.subTest(what, script=name):
                code, out, errors = self.told(name, [self.run_folder])
                self.check(code, out, errors, name, damaged)

    def check_program(self, what, damaged=""):
        for command in ("report",) if damaged in ("events.jsonl", "summary.json") else ("watch", "report"):
            with self.subTest(what, command=command):
                done = subprocess.run([PROGRAM, command, self.run_folder], capture_output=True)
                self.check(done.returncode, done.stdout.decode(), done.stderr.decode(), "archipelago", damaged)

    def check(self, code, out, errors, name, damaged):
        """`damaged`: the file that has to be named where there is no result."""
        if code in (DONE, TRY_AGAIN):
            self.assertEqual(errors, "")
            self.assertNotEqual(out, "")
            return
        self.assertIn(code, (BAD_DATA, CONFIGURATION))
        self.assertRegex(errors, rf"\A{name}: [^\n]+\n\Z")
        self.assertIn(damaged, errors)
        self.assertNotIn("Traceback", errors)

    def test_whole_folder(self):
        for name in self.scripts:
            self.assertEqual(self.told(name, [self.run_folder])[0], DONE)
        self.check_program("whole")

    def test_one_file_damaged(self):
        for name, content in FILES.items():
            cut = [content.encode()[:len(content) * part // 7] for part in range(1, 7)]
            for number, damage in enumerate(WHOLE + cut):
                self.put(name, damage)
                self.check_scripts(f"{name}: {damage[:30]}", name)
                if number % 2 == 0:  # the program takes longer to start
                    self.check_program(f"{name}: {damage[:30]}", name)
            (self.run_folder / name).unlink()
            self.check_scripts(f"no {name}")
            self.check_program(f"no {name}")
            (self.run_folder / name).mkdir()
            self.check_scripts(f"{name} a folder")
            self.check_program(f"{name} a folder")
            (self.run_folder / name).rmdir()
            self.mend(name)

    def test_status_without_a_summary(self):
        (self.run_folder / "summary.json").unlink()
        for damage in WHOLE:
            self.put("status.json", damage)
            self.check_scripts(damage[:30], "status.json")
            self.check_program(damage[:30], "status.json")

    def test_fields_of_another_kind(self):
        for name, whole in (("status.json", STATUS), ("summary.json", SUMMARY)):
            if name == "status.json":
                (self.run_folder / "summary.json").unlink()
            for number, changed in enumerate(with_one_wrong(whole)):
                self.put(name, json.dumps(changed).encode())
                self.check_scripts(json.dumps(changed), names=["what-happened"])
                if number % 50 == 0:
                    self.check_program(json.dumps(changed))
            for wrong in WRONG:
                self.put(name, json.dumps(dict.fromkeys(whole, wrong)).encode())
                self.check_scripts(f"{name}: {wrong}")
            self.mend("summary.json")
            self.mend(name)

    def test_rows_of_another_kind(self):
        for name, rows in (("metrics.jsonl", METRICS), ("events.jsonl", TAPE)):
            for row in rows[-11:]:
                self.put(name, (FILES[name] + lines(with_one_wrong(row)) + FILES[name]).encode())
                self.check_scripts(json.dumps(row))
                self.check_program(json.dumps(row))
            self.mend(name)

    def test_no_folder(self):
        for name in self.scripts:
            for path in (self.run_folder / "none", self.run_folder / "metrics.jsonl"):
                code, out, errors = self.told(name, [path])
                self.assertEqual((code, out), (CONFIGURATION, ""))
                self.assertRegex(errors, rf"\A{name}: [^\n]+\n\Z")
            self.assertEqual(self.told(name, [])[0], USAGE)
            self.assertEqual(self.told(name, ["--help"])[0], USAGE)

    def test_what_cannot_be_written(self):
        happened, board = SCRIPTS / "what-happened", SCRIPTS / "tensorboard"
        with open("/dev/full", "w") as full:
            for name in (happened, board):
                done = subprocess.run([sys.executable, name, self.run_folder], stdout=full, stderr=subprocess.PIPE,
                                      text=True)
                self.assertEqual(done.returncode, CONFIGURATION)
                self.assertRegex(done.stderr, rf"\A{name.name}: standard output: [^\n]+\n\Z")
        place = self.run_folder / "tensorboard" / "learner-0"
        shutil.rmtree(place)
        place.mkdir()
        (place / "events.out.tfevents.0.archipelago").symlink_to("/dev/full")
        code, _, errors = self.told("tensorboard", [self.run_folder])
        self.assertEqual(code, CONFIGURATION)
        self.assertEqual(errors, f"tensorboard: {place}/events.out.tfevents.0.archipelago: No space left on device\n")


if __name__ == "__main__":
    unittest.main()
