"""A small PostgreSQL of one's own, to be stopped and started in the middle of things."""

import atexit
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from server import free_port


class Cluster:
    """Its files are in a temporary folder; `url` is the address of its owner."""

    def __init__(self, env=None):
        self.env = os.environ | (env or {})  # of the server
        self.dir = Path(tempfile.mkdtemp(prefix="posthorn-postgres-"))
        atexit.register(self.remove)
        self.port = free_port()
        password = secrets.token_hex(16)
        self.url = f"postgres://postgres:{password}@127.0.0.1:{self.port}/postgres"
        (self.dir / "password").write_text(password)
        if os.geteuid() == 0:
            for path in (self.dir, self.dir / "password"):
                shutil.chown(path, "postgres")
        self._run(
            "initdb", "-D", self.dir / "data", "-U", "postgres", "--auth=scram-sha-256",
            f"--pwfile={self.dir / 'password'}", "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip

    def start(self):
        """Returns when it takes connections. Flushing stays on: the question is what is durable."""
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=on"
        self._ctl("start", "-w", "-t", "60", "-l", self.dir / "log", "-o", settings, env=self.env)
        return self

    def stop(self, mode):
        """`fast` breaks every connection and writes a checkpoint, `immediate` is a crash."""
        self._ctl("stop", "-w", "-m", mode)

    def remove(self):
        if (self.dir / "data" / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.dir, ignore_errors=True)

    def _ctl(self, *args, env=None):
        self._run("pg_ctl", "-s", "-D", self.dir / "data", *args, env=env)

    def _run(self, program, *args, env=None):
        command = [programs() / program, *args]
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            command = ["runuser", "-u", "postgres", "--", *command]
        # Into a file: the server inherits what it is given, and a pipe would never end.
        with tempfile.TemporaryFile("w+") as said:
            run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", env=env)
            said.seek(0)
            assert run.returncode == 0, f"{program} ended with {run.returncode}: {said.read().strip()}"


def programs():
    """Debian keeps the server's programs, by version, outside the PATH."""
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    path = shutil.which("initdb")
    assert path, "initdb is missing: install PostgreSQL"
    return Path(path).resolve().parent
