"""Jobs of real MPI ranks for the tests beside this file.

A test starts a job, waits for conditions (never for an amount of time), breaks something, and
asserts on what the run's folder says afterwards. PROGRAM and MPIRUN come from CMake.
"""

import array
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["TEST_PROGRAM"]
MPIRUN = os.environ["TEST_MPIRUN"]
BTL = os.environ.get("TEST_BTL", "sm,tcp,self")
KEEP = os.environ.get("TEST_KEEP")  # leave the work folders of failed tests

DONE, USAGE, BAD_DATA, INTERNAL, TRY_AGAIN, DIVERGED, CONFIGURATION = 0, 64, 65, 70, 75, 76, 78

# Whatever takes longer hangs, on the slowest and busiest of machines.
JOB_SECONDS = 600

# A model that trains in next to no time.
TINY = {
    "model.layers": 1,
    "model.width": 32,
    "model.heads": 2,
    "model.context": 32,
    "train.batch": 4,
    "train.steps": 400,
    "train.warmup": 10,
    "train.validation": 1024,
    "sync.learners": 3,
    "sync.spares": 1,
    "sync.refill": 0,
    "sync.fragments": 4,
    "sync.interval": 4,
    "sync.outlier": 0,  # on a busy machine learners make very unlike numbers of steps a round
    "checkpoint.global_rounds": 10,
    "checkpoint.learner_steps": 20,
}
BATCH_TOKENS = TINY["train.batch"] * TINY["model.context"]

# So many steps that a run doesn't complete before the test has done its work and stops it.
ENDLESS = 1_000_000


def adopt_orphans():
    """Makes processes whose parents die children of this one, so that they can be found and ended."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as listed:
                found += [int(word) for word in listed.read().split()]
    except OSError:
        pass
    return found


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def end_descendants():
    while left := descendants(os.getpid()):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, 0)[0]:
                pass
        except ChildProcessError:
            pass


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def read_lines(path):
    """The whole lines of a file that is still being written."""
    try:
        text = path.read_text()
    except OSError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


def processes():
    """Every process: id, words of its command line, environment."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or is somebody else's
        yield int(folder.name), words, environment


class Job:
    """One start of a run: `train` under mpirun, or, with launch=True or its flags, `launch`."""

    def __init__(self, test, out, *flags, ranks=None, launch=False, program=PROGRAM, mpirun=("--with-ft", "ulfm"),
                 **options):
        self.test = test
        self.out = pathlib.Path(out)
        self.options = {**TINY, "data.path": test.data, "out": self.out}
        self.options.update({name.replace("__", "."): value for name, value in options.items()})
        train = [f"--{name}={value}" for name, value in self.options.items() if value is not None]
        if launch:
            own = [] if launch is True else launch
            command = test.on_launching_host([program, "launch", *own, "--", *train, *flags])
        else:
            scratch = test.shared_memory
            command = [
                MPIRUN, *mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "osc", "rdma",
                "--mca", "pml", "ob1", "--mca", "btl", BTL, "--mca", "btl_tcp_flags", "send",
                "--mca", "btl_sm_backing_directory", scratch, "--mca",
                "osc_rdma_backing_directory", scratch,
                "-n", str(ranks or self.world_size()), program, "train", *train, *flags
            ]
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith("ARCHIPELAGO_")}
        environment = dict(inherited, OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **test.environment())
        self.log_path = test.folder / f"job{len(test.jobs)}.log"
        self.log_file = open(self.log_path, "w")
        self.old_summary = self.identity_of_summary()
        self.process = subprocess.Popen(
            ["timeout", "-k", "5", str(JOB_SECONDS), *command], stdin=subprocess.DEVNULL,
            stdout=self.log_file, stderr=subprocess.STDOUT, env=environment)
        test.jobs.append(self)

    def option(self, name):
        return int(self.options[name])

    def world_size(self):
        islands = self.option("sync.learners") + self.option("sync.spares")
        syncers = int(self.options.get("sync.syncers", 1)) + int(self.options.get("sync.standby", 0))
        return syncers + islands * int(self.options.get("sync.ranks_per_learner", 1))

    # ---- what the run says

    def log(self):
        return self.log_path.read_text(errors="replace")

    def log_end(self):
        return "\n".join(self.log().splitlines()[-30:])

    def status(self):
        return read_json(self.out / "status.json") or {"state": None, "learners": []}

    def summary(self):
        if self.identity_of_summary() in (None, self.old_summary):
            return None
        return read_json(self.out / "summary.json")

    def identity_of_summary(self):
        try:
            stat = (self.out / "summary.json").stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return stat.st_ino, stat.st_mtime_ns

    def events(self):
        return read_lines(self.out / "events.jsonl")

    def metrics(self):
        return read_lines(self.out / "metrics.jsonl")

    def rows_of(self, learner, incarnation):
        return [row for row in self.metrics()
                if row.get("learner") == learner and row.get("incarnation") == incarnation]

    def actions(self, kind):
        return [action for entry in self.events() for action in entry.get("actions", [])
                if action["type"] == kind]

    def learner(self, number):
        return next((entry for entry in self.status()["learners"] if entry["id"] == number), None)

    def spares(self):
        return [entry for entry in self.status()["learners"] if entry["id"] is None]

    def is_active(self, number, incarnation=0):
        """Whether the learner trains, or did to the end, in this life or a later one."""
        entry = self.learner(number)
        return bool(entry) and entry["state"] in ("active", "ended") and entry["incarnation"] >= incarnation

    def all_active(self, incarnation=0):
        return all(self.is_active(i, incarnation) for i in range(self.option("sync.learners")))

    # ---- waiting

    def wait_for(self, what, condition):
        """Waits until `condition()` holds; fails when the job ends before."""
        deadline = time.monotonic() + JOB_SECONDS
        while not condition():
            over = self.process.poll() is not None
            if over and condition():
                return
            if over or time.monotonic() > deadline:
                ended = f"the job ended ({self.process.poll()})" if over else "time is up"
                self.test.fail(f"{ended} before {what}:\n{self.log_end()}")
            time.sleep(0.05)

    def wait_until_training(self):
        self.wait_for("all learners trained", self.all_active)

    def wait_for_rejoin(self, number, incarnation):
        self.wait_for(f"learner {number} was back in life {incarnation}",
                      lambda: self.is_active(number, incarnation))

    def wait(self):
        """The exit code of mpirun or launch."""
        code = self.process.wait()
        self.log_file.close()
        if code in (124, 137, -signal.SIGKILL) and self.summary() is None:
            self.test.fail(f"the job hung:\n{self.log_end()}")
        return code

    def finish(self, exit_code):
        """Waits for the end and checks the run's own verdict, in its summary."""
        deadline = time.monotonic() + JOB_SECONDS
        while self.process.poll() is None and self.summary() is None:
            if time.monotonic() > deadline:
                self.test.fail(f"the job did not end:\n{self.log_end()}")
            time.sleep(0.05)
        summary = self.summary()
        if summary is None:
            self.test.fail(f"the job ended ({self.process.wait()}) without a summary:\n{self.log_end()}")
        self.test.assertEqual(summary["exit_code"], exit_code, self.log_end())
        self.wait()
        return summary

    # ---- breaking

    def stop(self):
        (self.out / "stop").touch()

    def kill(self, pid, number=signal.SIGKILL):
        os.kill(pid, number)

    def freeze_at_start(self, rank):
        """Lets the rank stand still as soon as there is one."""
        mark = f"OMPI_COMM_WORLD_RANK={rank}".encode()
        out = f"--out={self.out}".encode()
        found = lambda: [pid for pid, words, environment in processes()
                         if b"train" in words and out in words and mark in environment]
        while not found():
            self.test.assertIsNone(self.process.poll(), self.log_end())
        self.kill(found()[0], signal.SIGSTOP)

    def kill_learner(self, number, rank=0):
        """Kills a rank of the learner's island; returns the incarnation that dies with it."""
        entry = self.learner(number)
        self.kill(entry["pids"][rank])
        return entry["incarnation"]


class MpiTest(unittest.TestCase):
    """A test with a work folder and a small data file of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="archipelago-test-"))
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.shared_memory = tempfile.mkdtemp(prefix="archipelago-test-", dir=parent)
        self.jobs = []
        self.data = self.prepare("data.h5", seed=1)
        adopt_orphans()
        self.addCleanup(self.clean_up)

    def clean_up(self):
        end_descendants()
        for job in self.jobs:
            job.process.poll()
            job.log_file.close()
        shutil.rmtree(self.shared_memory, ignore_errors=True)
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        if KEEP and failed:
            print("kept", self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def prepare(self, name, seed, *arguments):
        words = "the sea of isles and sails lost in wind comes back again to harbour".split()
        source = random.Random(seed)
        text = self.folder / f"{name}.txt"
        text.write_text("\n".join(
            " ".join(source.choice(words) for _ in range(10)) for _ in range(800)))
        path = self.folder / name
        subprocess.run([PROGRAM, "prepare", "text", str(text), "--out", str(path), *arguments],
                       check=True, capture_output=True)
        return path

    def run_folder(self):
        return self.folder / "run"

    def on_launching_host(self, command):
        """The command that runs `command` where jobs are launched from."""
        return command

    def environment(self):
        """What a job's environment has besides this process's own."""
        return {}

    def start(self, *flags, out=None, **options):
        return Job(self, out or self.run_folder(), *flags, **options)

    def resume(self, job, out=None, **options):
        changed = {name.replace(".", "__"): value for name, value in job.options.items()
                   if name != "out"}
        return Job(self, out or job.out, "--resume", **{**changed, **options})

    # ---- what holds after any run

    def parameters(self, run):
        """Every tensor of the run's last checkpoint, by name."""
        newest = max((run.out / "checkpoints").glob("global-*.h5"))
        exported = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "model.safetensors"
        done = subprocess.run([PROGRAM, "export", str(newest), str(exported)], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, DONE, done.stderr)
        content = exported.read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8:8 + length])
        values = {}
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = (8 + length + offset for offset in entry["data_offsets"])
                values[name] = array.array("f", content[begin:end])
        return values

    def assert_tokens_counted_once(self, job):
        """The lives of a learner follow one another in its data without a gap: each begins where
        what was merged of the ones before ends on average, and counts every step from there."""
        begins = {}
        told = {}  # the furthest that each life has told of itself
        for entry in job.events():
            event = entry.get("event", {})
            if event.get("type") in ("report", "delivery"):
                key = (event["learner"], event["incarnation"])
                tokens = event.get("at_tokens", event.get("tokens"))
                told[key] = max(told.get(key, 0), tokens)
            for action in entry.get("actions", []):
                if action["type"] == "assign":
                    key = (action["learner"], action["incarnation"])
                    self.assertNotIn(key, begins, "one life was given away twice")
                    begins[key] = action["tokens"]
        for row in job.metrics():
            if "learner" not in row:
                continue
            begin = begins[row["learner"], row["incarnation"]]
            self.assertEqual(begin % BATCH_TOKENS, 0)
            self.assertEqual(row["tokens"], row["step"] * BATCH_TOKENS)
            self.assertGreaterEqual(row["tokens"], begin)
        for learner in {key[0] for key in begins}:
            lives = sorted(key[1] for key in begins if key[0] == learner)
            self.assertEqual(lives, list(range(lives[0], lives[0] + len(lives))))
            furthest = 0
            for before, after in zip(lives, lives[1:]):
                # No life begins beyond all that the ones before had trained.
                furthest = max(furthest, begins[learner, before], told.get((learner, before), 0))
                self.assertLessEqual(begins[learner, after], furthest)
