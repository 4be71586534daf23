"""`archipelago join` where there is nothing to take part in: what is missing, and what to do."""

import json
import socket
import subprocess
import unittest

from command import CONFIGURATION, PROGRAM, TRY_AGAIN, CommandTest, run

SECRET = "ab" * 32


class Join(CommandTest):

    def setUp(self):
        super().setUp()
        self.copy = self.folder / "copy"
        self.copy.mkdir()
        (self.copy / "config.ini").write_text("[data]\npath = x.h5\n[sync]\nlisten = 0.0.0.0:4711\n")

    def invite(self, address):
        (self.copy / "join.json").write_text(json.dumps({"address": address, "secret": SECRET}))

    def assert_in_vain(self, *words):
        """It waits, says for what, and gives up with the same words."""
        done = run("join", self.copy, "--patience", "0.5")
        self.assertEqual(done.returncode, TRY_AGAIN, done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 2, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])
            self.assertIn(word, lines[1])
        self.assertRegex(lines[0], r" INFO .*; waiting for 1 s\Z")
        self.assertRegex(lines[1], r" ERROR .* \(waited 1 s\)\Z")

    def test_no_invitation(self):
        self.assert_in_vain(f"there is no {self.copy}/join.json", "--sync.listen")

    def test_nobody_at_the_address(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # nobody listens there
            address = f"127.0.0.1:{closed.getsockname()[1]}"
            self.invite(address)
            self.assert_in_vain(f"nobody answers at {address} (Connection refused)", f"{self.copy}/join.json")

    def test_what_is_no_invitation(self):
        for text in ("", "{", "[]", "{}", '{"address": 5}'):
            (self.copy / "join.json").write_text(text)
            self.assert_refused(CONFIGURATION, ["join.json holds no invitation", "damaged"], "join", self.copy)
        self.invite("host:99999")
        self.assert_refused(CONFIGURATION, ["join.json", "above 65535"], "join", self.copy)
        self.invite("host.invalid:1")
        done = subprocess.run([PROGRAM, "join", self.copy], capture_output=True, text=True)
        self.assertIn(done.returncode, (CONFIGURATION, TRY_AGAIN))  # by what the resolver knows
        self.assertRegex(done.stderr, r"\Aarchipelago: [^\n]*join\.json: [^\n]*host\.invalid:1 [^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
