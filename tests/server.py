"""One Posthorn under test, seen from outside: its process and its store.

Used by all tests that are written in Python. Standard library only, and nothing of
Posthorn's own code: what these tests believe about the product they have learnt over
HTTP, from exit codes and from the rows in the store.
"""

import atexit
import contextlib
import csv
import http.client
import io
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STOP_LIMIT = 10.0  # seconds between SIGTERM and the end, as promised
START_LIMIT = 30.0  # seconds before a server that does not answer is given up


def binary():
    """The program to test: $POSTHORN_BIN, or the release build."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("POSTHORN_BIN", target / "release" / "posthorn")).resolve()
    if not path.is_file():
        sys.exit(f"{path} is missing: run `cargo build --release` first")
    return str(path)


def free_port():
    """A port nobody listens on, below the range from which clients' own ports are drawn.

    From within that range a client that connects while the server is down can be
    given the server's port and end up talking to itself.
    """
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def clean_env():
    """The environment without the caller's own Posthorn settings."""
    return {k: v for k, v in os.environ.items() if not k.startswith("POSTHORN_")}


class Sqlite:
    """A store in a directory of its own."""

    engine = "sqlite"

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="posthorn-test-")
        self.args = ["--data-dir", self.dir]

    def _file(self):
        for path in sorted(Path(self.dir).iterdir()):
            if path.is_file():
                with path.open("rb") as file:
                    if file.read(16) == b"SQLite format 3\0":
                        return path
        raise AssertionError(f"no SQLite file in {self.dir}")

    def query(self, sql):
        db = sqlite3.connect(f"file:{self._file()}?mode=ro", uri=True, timeout=30)
        try:
            return [tuple(shown(v) for v in row) for row in db.execute(sql)]
        except sqlite3.Error as error:
            files = ", ".join(f"{path.name} {path.stat().st_size}" for path in sorted(Path(self.dir).iterdir()))
            code = getattr(error, "sqlite_errorname", "")
            raise AssertionError(f"{sql}: {error} {code} ({files})") from error
        finally:
            db.close()

    def run(self, sql):
        with sqlite3.connect(self._file(), timeout=30) as db:
            db.execute(sql)
        db.close()

    def integrity(self):
        """What SQLite itself says about its file: `ok`, or what is wrong."""
        return "; ".join(row[0] for row in self.query("PRAGMA integrity_check"))

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def shown(value):
    """What SQLite keeps, as PostgreSQL would tell it: ids are 16 bytes."""
    if isinstance(value, bytes) and len(value) == 16:
        return str(uuid.UUID(bytes=value))
    return None if value is None else str(value)


class Postgres:
    """A database of its own in a cluster: the one given, or the one that $POSTHORN_TEST_POSTGRES points to."""

    engine = "postgres"

    def __init__(self, admin=None):
        self.admin = admin or os.environ.get("POSTHORN_TEST_POSTGRES")
        if not self.admin:
            sys.exit("POSTHORN_TEST_POSTGRES is not set: `./test run COMMAND` sets it")
        self.dir = tempfile.mkdtemp(prefix="posthorn-test-")
        self.name = f"outside_{os.getpid()}_{random.SystemRandom().randrange(16**6):06x}"
        self._psql(self.admin, f"CREATE DATABASE {self.name}")
        address, _, query = self.admin.partition("?")
        self.url = address.rsplit("/", 1)[0] + "/" + self.name + ("?" + query if query else "")
        self.args = ["--data-dir", self.dir, "--database-url", self.url]

    def _psql(self, url, sql):
        command = ["psql", "--no-psqlrc", "--csv", "--tuples-only", "--quiet"]
        command += ["--set", "ON_ERROR_STOP=1", "--pset", "null=\\N", "--dbname", url, "--command", sql]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            raise AssertionError(f"psql failed on {sql}: {run.stderr.strip()}")
        return run.stdout

    def query(self, sql):
        # csv.reader limits a field to 128 KiB unless told otherwise; names are far shorter.
        rows = csv.reader(io.StringIO(self._psql(self.url, sql), newline=""))
        return [tuple(None if v == "\\N" else v for v in row) for row in rows]

    def run(self, sql):
        self._psql(self.url, sql)

    def integrity(self):
        """PostgreSQL itself was not killed: reading every row is the check that is left."""
        for (table,) in self.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            self.query(f'SELECT count(t::text) FROM "{table}" t')
        return "ok"

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        try:
            self._psql(self.admin, f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")
        except AssertionError as problem:
            print(f"left behind: {problem}", file=sys.stderr)


ENGINES = {"sqlite": Sqlite, "postgres": Postgres}


class Server:
    """A `posthorn serve` on a store; start and stop it as often as you like."""

    running = set()  # every process still alive, so that none outlives the test

    def __init__(self, store, *extra):
        self.store = store
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.extra = list(extra)
        self.env = {}  # beside what every server gets
        self.process = None
        self.log = Path(store.dir) / f"server-{self.port}.log"

    def start(self):
        """Starts the process and returns at once."""
        command = [binary(), "serve", "--listen", f"127.0.0.1:{self.port}", *self.store.args, *self.extra]
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".old"))  # a thousand starts must not fill the disk
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_env() | self.env,
                cwd=self.store.dir,
            )
        Server.running.add(self.process)
        self.started = time.monotonic()
        return self

    def wait(self):
        """Waits for the first 200 of /readyz; returns the seconds since the start."""
        while True:
            status = self.ask("GET", "/readyz", tolerant=True)[0]
            elapsed = time.monotonic() - self.started
            if status == 200:
                return elapsed
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode} while starting\n{self.tail()}")
            if elapsed > START_LIMIT:
                raise AssertionError(f"no answer {START_LIMIT:.0f} s after the start (last: {status})\n{self.tail()}")
            time.sleep(0.005)

    def ask(self, method, path, body=None, headers=None, tolerant=False, timeout=20):
        """One request; returns (status, headers, body). Tolerant: (None, …) when nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            sent = dict(headers or {})
            if body is not None:
                sent.setdefault("Content-Type", "application/json")
                body = json.dumps(body)
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        except (OSError, http.client.HTTPException):
            if tolerant:
                return None, {}, b""
            raise
        finally:
            connection.close()

    def command(self, *args, typed=""):
        """Runs another posthorn command on the same store and returns what it printed."""
        run = subprocess.run(
            [binary(), *args, *self.store.args], input=typed, capture_output=True, text=True, env=clean_env(), timeout=60
        )
        if run.returncode != 0:
            raise AssertionError(f"posthorn {' '.join(args)} ended with {run.returncode}: {run.stderr.strip()}")
        return run.stdout

    def create_key(self):
        """An API key, which stands alone on its line."""
        printed = self.command("keys", "create", "--name", "test")
        keys = [line for line in printed.splitlines() if line.startswith("re_")]
        assert len(keys) == 1 and keys[0] == keys[0].strip(), f"expected a key alone on its line, got {printed!r}"
        return keys[0]

    def create_user(self, email, password, role="owner"):
        """Somebody who can log in."""
        self.command("users", "create", "--email", email, "--as", role, "--password-stdin", typed=f"{password}\n")

    def create_client(self, *redirect_uris):
        """The id of a newly registered OAuth client that may ask for everything."""
        status, _, body = self.ask(
            "POST",
            "/oauth/register",
            {
                "client_name": "Outside test",
                "redirect_uris": list(redirect_uris),
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "scope": "full_access emails:send",
            },
        )
        assert status == 201, f"registering a client: {status} {body!r}"
        return json.loads(body)["client_id"]

    def stop(self):
        """SIGTERM; the process must end by itself, in time and with code 0. Returns the seconds."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended(time.monotonic())

    def ended(self, since):
        """Waits for the end of a process that was told to stop at `since`."""
        try:
            code = self.process.wait(max(0.0, since + STOP_LIMIT - time.monotonic()))
        except subprocess.TimeoutExpired:
            tail = self.tail()
            self.kill()
            raise AssertionError(f"still running {STOP_LIMIT:.0f} s after SIGTERM\n{tail}") from None
        Server.running.discard(self.process)
        assert code == 0, f"exit code {code} after SIGTERM\n{self.tail()}"
        return time.monotonic() - since

    def kill(self):
        """SIGKILL, as a crash does it."""
        self.process.kill()
        self.process.wait()
        Server.running.discard(self.process)

    def tail(self, lines=20):
        """The end of what the server logged, and the one before it, for a message about a failure."""
        logs = [path.read_text(errors="replace") for path in (self.log.with_suffix(".old"), self.log) if path.exists()]
        return "\n".join("  | " + line for text in logs for line in text.splitlines()[-lines:])


@contextlib.contextmanager
def serving(engine, *extra):
    """A server on a store of its own; where nothing went wrong meanwhile, it has to end as promised."""
    store = ENGINES[engine]()
    server = Server(store, *extra)
    try:
        server.start().wait()
        yield server
        server.stop()
    finally:
        if server.process and server.process.poll() is None:
            server.kill()
        store.remove()


def _kill_all():
    for process in list(Server.running):
        process.kill()
        process.wait()


atexit.register(_kill_all)
# Without a handler SIGTERM ends Python before the clean-up above.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
