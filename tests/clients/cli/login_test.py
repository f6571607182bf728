"""The vendor's command line: its browser log-in in a terminal, and what runs on the token.

Started by ../run, which sets RESEND_BASE_URL, RESEND_CLI and who the PERSON is. The browser
that the program opens is `xdg-open` on its PATH: the person, who answers and comes back.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

LIMIT = 60  # seconds for one command


class Login(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="posthorn-cli-")
        self.addCleanup(folder.cleanup)
        home = Path(folder.name)
        self.credentials = home / "resend" / "credentials.json"
        # Neither a key, which would do without the log-in, nor a sign that nobody is watching.
        unwanted = ("RESEND_API_KEY", "CI", "GITHUB_ACTIONS")
        self.env = {name: value for name, value in os.environ.items() if name not in unwanted} | {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "RESEND_CREDENTIAL_STORE": "file",
            "RESEND_TELEMETRY_DISABLED": "1",
            "DO_NOT_TRACK": "1",
            "RESEND_NO_UPDATE_NOTIFIER": "1",
            "TERM": "xterm",
            "PATH": f"{home}:{os.environ['PATH']}",
        }
        self.opener = home / "xdg-open"

    def log_in(self, *options):
        """Runs `resend login` in a terminal, takes its first choice, and returns its exit code and screen."""
        self.opener.write_text(f'#!/bin/sh\nexec "$PERSON" --visit {" ".join(options)} "$1"\n')
        self.opener.chmod(0o755)
        process, terminal = pty.fork()
        if process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
            os.execvpe("node", ["node", os.environ["RESEND_CLI"], "login"], self.env)
        screen, chosen, until = "", False, time.monotonic() + LIMIT
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                screen += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # the program has ended
                break
            if not chosen and "Login with Resend" in screen:
                chosen = True
                os.write(terminal, b"\r")
        else:
            os.kill(process, 9)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        os.close(terminal)
        return code, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)

    def resend(self, *command, code=0):
        """What a command prints, which is JSON."""
        run = subprocess.run(
            ["node", os.environ["RESEND_CLI"], *command, "--json"],
            env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
        )
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return json.loads(run.stdout) if code == 0 else run.stderr

    def profile(self):
        return json.loads(self.credentials.read_text())["profiles"]["default"]

    def test_from_the_log_in_to_the_revocation(self):
        code, screen = self.log_in()
        self.assertEqual(code, 0, screen)
        self.assertIn("Authenticated successfully", screen)
        self.assertEqual((self.profile()["type"], self.profile()["scope"]), ("oauth_grant", "full_access"))

        self.assertTrue(self.resend("whoami")["authenticated"])
        event = self.resend("events", "create", "--name", "cli.made", "--schema", '{"plan":"string"}')["id"]
        self.assertEqual([one["id"] for one in self.resend("events", "list")["data"]], [event])
        self.assertEqual(self.resend("events", "get", "cli.made")["schema"], {"plan": "string"})

        before = self.profile()
        store = json.loads(self.credentials.read_text())
        store["profiles"]["default"]["access_token_expires_at"] = int(time.time()) + 30
        self.credentials.write_text(json.dumps(store))
        self.resend("events", "delete", event, "--yes")
        self.assertNotEqual(self.profile()["refresh_token"], before["refresh_token"], "an old token is refreshed")

        grant = self.resend("oauth-grants", "list")["data"][0]
        self.assertEqual((grant["scopes"], grant["revoked_at"]), (["full_access"], None))
        gone = self.resend("oauth-grants", "revoke", grant["id"], "--yes")
        self.assertEqual((gone["object"], gone["id"]), ("oauth_grant", grant["id"]))
        self.assertIn("access token", self.resend("events", "list", code=1))

    def test_a_key_logs_in_and_the_doctor_sees_the_domains(self):
        made = subprocess.run(
            ["node", os.environ["RESEND_CLI"], "login", "--key", os.environ["RESEND_API_KEY"], "--json"],
            env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
        )
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        self.assertEqual(self.resend("domains", "list")["object"], "list")
        checks = {check["name"]: check["status"] for check in self.resend("doctor")["checks"]}
        self.assertIn("Domains", checks)
        self.assertNotIn("fail", checks.values(), checks)

    def test_a_denial_is_told(self):
        code, screen = self.log_in("--deny")
        self.assertNotEqual(code, 0, screen)
        self.assertIn("denied", screen)
        self.assertFalse(self.credentials.exists())


if __name__ == "__main__":
    unittest.main()
