"""The program's commands for the tests beside this file. PROGRAM comes from CMake."""

import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["TEST_PROGRAM"]
DONE, USAGE, BAD_DATA, TRY_AGAIN, DIVERGED, CONFIGURATION = 0, 64, 65, 75, 76, 78


def run(*arguments, **environment):
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith("ARCHIPELAGO_")}
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**inherited, **environment})


class CommandTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="archipelago-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_refused(self, code, words, *arguments, **environment):
        result = run(*arguments, **environment)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Aarchipelago: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, result.stderr)
