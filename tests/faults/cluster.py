"""A small PostgreSQL of one's own, to be stopped, paused, copied and started in the middle of things."""

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from server import free_port


class Cluster:
    """Its files are in a temporary folder; `url` is the address of its owner."""

    def __init__(self, primary=None, env=None):
        """A new one, or a standby of another, which is copied as it is."""
        self.env = os.environ | (env or {})  # of the server
        self.dir = Path(tempfile.mkdtemp(prefix="posthorn-postgres-"))
        atexit.register(self.remove)
        self.port = free_port()
        self.paused = []
        self.password = primary.password if primary else secrets.token_hex(16)
        self.url = f"postgres://postgres:{self.password}@127.0.0.1:{self.port}/postgres"
        (self.dir / "password").write_text(self.password)
        if os.geteuid() == 0:
            for path in (self.dir, self.dir / "password"):
                shutil.chown(path, "postgres")
        if primary:
            self._run("pg_basebackup", "-D", self.dir / "data", "-R", "-X", "stream", "-c", "fast", "-d", primary.url)
            return
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

    def pause(self):
        """Every process of it hangs: connections stay open, and nobody answers."""
        leader = int((self.dir / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(leader, signal.SIGSTOP)  # first, so that it starts no more of them
        self.paused = [leader, *children(leader)]
        for process in self.paused:
            os.kill(process, signal.SIGSTOP)

    def resume(self):
        for process in self.paused:
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                pass  # it has ended
        self.paused = []

    def wait_for_standby(self):
        """From now on a commit is one when the standby has it, too."""
        self.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.ask("SELECT pg_reload_conf()")
        until = time.monotonic() + 30
        while "sync" not in self.ask("SELECT sync_state FROM pg_stat_replication"):
            assert time.monotonic() < until, "the standby does not follow"
            time.sleep(0.1)

    def promote(self):
        self._ctl("promote", "-w")

    def ask(self, sql):
        """What psql prints of the answer."""
        command = ["psql", "--no-psqlrc", "--csv", "--tuples-only", "--quiet", "--dbname", self.url, "--command", sql]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, f"psql failed on {sql}: {run.stderr.strip()}"
        return run.stdout.split()

    def remove(self):
        self.resume()
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


def children(parent):
    """The processes that this one has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def programs():
    """Debian keeps the server's programs, by version, outside the PATH."""
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    path = shutil.which("initdb")
    assert path, "initdb is missing: install PostgreSQL"
    return Path(path).resolve().parent
