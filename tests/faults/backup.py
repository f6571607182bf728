#!/usr/bin/env python3
"""A backup made under load, restored elsewhere: all that was acknowledged before is in it, and it holds until told.

    tests/faults/backup.py [--rounds 3] [--seed N] [--engine sqlite|postgres]

SQLite: `posthorn backup` while 32 writers write, which must end and show how far it is,
then `posthorn restore` in a folder of its own, and in every second round a plain copy of
the file. PostgreSQL: `posthorn hold`, pg_dump under the same load, and a new database. The
restored server is given time in which its timers are due: nothing may fire. After
`posthorn resume` each fires exactly once, and the original has not been held up (SQLite)
or goes on after its own `posthorn resume` (PostgreSQL). Prints one line an engine; exits 1
if one of them broke the promise. PostgreSQL is the one that $POSTHORN_TEST_POSTGRES
points to.
"""

import argparse
import asyncio
import json
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cluster import programs
from failing_disk import Writers
from load import History, WRITERS
from server import ENGINES, Server, Sqlite, binary, clean_env

TIMERS = 200  # runs that sleep when the backup is made
DELAY = 3.0  # seconds for which they sleep
LOAD = 1.0  # seconds of writing before the backup
HELD = 3.0  # seconds in which a restored server must do nothing although much is due
FIRED_WITHIN = 30.0  # seconds after `posthorn resume`
ENDS_WITHIN = 60.0  # seconds for one backup
MAIL = {"from": "us@shop.example", "subject": "Welcome", "text": "Hello"}
FILLING = 20_000_000  # bytes that the store holds before, so that copying takes a while


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args()
    print(f"seed {options.seed} (--seed {options.seed} repeats the moments of the backups)", flush=True)
    engines = options.engine or ENGINES
    failed = [engine for engine in engines if not play(engine, options.rounds, random.Random(options.seed))]
    sys.exit(1 if failed else 0)


def play(engine, rounds, rng):
    """All rounds on one engine; True when nothing went wrong."""
    began = time.monotonic()
    store = ENGINES[engine]()
    server = Server(store, "--log", "error")
    try:
        server.start().wait()
        scene = Scene(server)
        copying, figures = {"sqlite": copy_sqlite, "postgres": copy_postgres}[engine], Figures()
        if engine == "sqlite":
            scene.fill()
        for number in range(1, rounds + 1):
            one_round(scene, copying, number, rng, figures)
        server.stop()
        print(f"{engine}: {rounds} backups, {figures}, {time.monotonic() - began:.0f} s", flush=True)
        return True
    except AssertionError as problem:
        print(f"{engine}: FAILED: {problem}\n{server.tail()}", flush=True)
        return False
    finally:
        if server.process.poll() is None:
            server.kill()
        store.remove()


class Figures:
    """What was measured."""

    def __init__(self):
        self.took, self.log, self.events, self.within, self.fired = [], 0, 0, 0, 0

    def __str__(self):
        return (
            f"each ended within {max(self.took):.1f} s (median {statistics.median(self.took):.1f} s) under load,"
            f"{f' log at most {self.log >> 20} MiB,' if self.log else ''} {self.events} events acknowledged before them, missing=0,"
            f" {self.within} acknowledged meanwhile, integrity ok, fired on hold=0, fired after resume={self.fired},"
            " twice=0"
        )


class Scene:
    """A store with an automation that sleeps and then changes the contact."""

    def __init__(self, server):
        self.server, self.key = server, server.create_key()
        self.make("/events", {"name": "signed.up"})
        steps = [
            {"key": "start", "type": "trigger", "config": {"event_name": "signed.up"}},
            {"key": "sleep", "type": "delay", "config": {"duration": f"{DELAY:.0f} seconds"}},
            {"key": "mail", "type": "send_email", "config": MAIL},
        ]
        links = [{"from": "start", "to": "sleep"}, {"from": "sleep", "to": "mail"}]
        self.automation = self.make(
            "/automations", {"name": "Welcome", "status": "enabled", "steps": steps, "connections": links}
        )

    def make(self, path, body, status=201):
        found, _, answer = self.server.ask("POST", path, body, {"Authorization": f"Bearer {self.key}"})
        assert found == status, f"POST {path}: {found} {answer!r}"
        return json.loads(answer).get("id")

    def fill(self):
        """Enough that a backup is not over at once."""
        schema = {f"{'k' * 200}{number}": "string" for number in range(100)}
        for number in range(FILLING // 20_000):
            self.make("/events", {"name": f"filling {number}", "schema": schema})

    def sleepers(self, tag):
        """Lets runs begin to sleep; tells their contacts."""
        emails = [f"{tag}.{number}@example.com" for number in range(TIMERS)]
        for start in range(0, TIMERS, 100):
            body = [{"event": "signed.up", "email": email} for email in emails[start : start + 100]]
            status, _, answer = self.server.ask(
                "POST", "/events/send/batch", body, {"Authorization": f"Bearer {self.key}"}
            )
            assert 200 <= status < 300, f"POST /events/send/batch: {status} {answer[:200]!r}"
        return set(emails)


def one_round(scene, copying, number, rng, figures):
    """One backup under load, and its life elsewhere."""
    history, writers, made = History(f"round{number}"), Writers(scene.server, scene.key), {}

    async def end():
        await asyncio.sleep(rng.uniform(0.3, LOAD))
        made["emails"] = await asyncio.to_thread(scene.sleepers, f"round{number}")
        made["before"] = dict(history.events)
        made["copy"] = await asyncio.to_thread(copying, scene.server, number)

    asyncio.run(writers_until(writers, history, end))
    assert not history.wrong, history.wrong[:5]
    events, within = made["before"], len(history.events) - len(made["before"])
    assert len(events) >= 50 and within > 0, f"{len(events)} events before and {within} meanwhile: that proves nothing"
    figures.took.append(made["copy"].took)
    figures.log = max(figures.log, made["copy"].log)
    figures.events += len(events)
    figures.within += within
    copy = made["copy"].store
    try:
        figures.fired += live_on(copy, events, made["emails"])
    finally:
        copy.remove()
    assert fired(scene.server.store, made["emails"], since=time.monotonic()) == TIMERS, "the original was held up"


async def writers_until(writers, history, end):
    """Lets the writers write until `end` has come to its own end; the server goes on."""
    tasks = [asyncio.create_task(writers._writer(history, number)) for number in range(WRITERS)]
    try:
        await end()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def live_on(store, events, emails):
    """A restored store: whole, sound, on hold, and after that at work."""
    stored = dict(store.query("SELECT id, name FROM events"))
    lost = [name for event, name in events.items() if stored.get(event) != name]
    assert not lost, f"{len(lost)} events acknowledged before the backup are not in it, one of them {lost[0]}"
    assert store.integrity() == "ok", f"integrity check: {store.integrity()}"
    before = mails(store)
    assert emails - set(before), "every timer had fired before the backup was made: that proves nothing"
    server = Server(store, "--log", "error")
    try:
        server.start().wait()
        ready = json.loads(server.ask("GET", "/readyz")[2])
        assert ready.get("held_since"), f"/readyz says nothing of a hold: {ready}"
        assert "On hold since" in server.log.read_text(), "the greeting says nothing of a hold"
        key = server.create_key()
        fresh = {"event": "signed.up", "email": "fresh@example.com"}
        status = server.ask("POST", "/events/send", fresh, {"Authorization": f"Bearer {key}"})[0]
        assert status == 202, f"POST /events/send on hold: {status}"
        time.sleep(HELD)
        early = len(mails(store)) - len(before)
        assert not early, f"{early} mails on hold"
        server.command("resume")
        everybody = emails | {fresh["email"]}
        got = fired(store, everybody, since=time.monotonic())
        assert got == len(everybody), f"{got} of {len(everybody)} timers fired after the hold"
        after = mails(store)
        assert len(after) == len(set(after)), "somebody got two mails"
        server.stop()
        return len(after) - len(before)
    finally:
        if server.process.poll() is None:
            server.kill()


def mails(store):
    sql = "SELECT r.address FROM email_recipients r JOIN emails e ON e.id = r.email_id WHERE e.run_id IS NOT NULL"
    return [recipient for (recipient,) in store.query(sql)]


def fired(store, emails, since):
    """Waits until everybody got his mail; tells how many did."""
    while True:
        got = len(emails & set(mails(store)))
        if got == len(emails) or time.monotonic() > since + FIRED_WITHIN:
            return got
        time.sleep(0.1)


class Copy:
    """A restored store, how many seconds its backup took, and how long the original's log was meanwhile."""

    def __init__(self, store, took, log=0):
        self.store, self.took, self.log = store, took, log


# ---- the two engines --------------------------------------------------------


def copy_sqlite(server, number):
    """`posthorn backup`, and `posthorn restore` or a plain copy of the file."""
    place, size = Sqlite(), [0]
    file, log = Path(place.dir) / "copy.db", Path(server.store.dir) / "posthorn.db-wal"
    over = threading.Event()

    def watch():
        while not over.wait(0.01):
            size[0] = max(size[0], log.stat().st_size)

    watching = threading.Thread(target=watch)
    watching.start()
    began = time.monotonic()
    try:
        said = command(["backup", str(file), *server.store.args])
        took = time.monotonic() - began
    finally:
        over.set()
        watching.join()
    assert "MiB copied" in said, f"it does not say how far it is: {said!r}"
    assert file.stat().st_mode & 0o777 == 0o600, f"the backup has the mode {file.stat().st_mode:o}"
    place.args = ["--data-dir", f"{place.dir}/data"]
    if number % 2:
        command(["restore", str(file), *place.args])
    else:
        (Path(place.dir) / "data").mkdir()
        shutil.copy(file, f"{place.dir}/data/posthorn.db")
    file.unlink()
    restored = Sqlite()
    shutil.rmtree(restored.dir)
    (Path(place.dir) / "data").rename(restored.dir)
    place.remove()
    return Copy(restored, took, size[0])


def copy_postgres(server, number):
    """`posthorn hold`, pg_dump, `posthorn resume`, and a new database."""
    began = time.monotonic()
    command(["hold", "--reason", f"dump {number}", *server.store.args])
    try:
        dump = run([programs() / "pg_dump", "--dbname", server.store.url]).stdout
    finally:
        command(["resume", *server.store.args])
    took = time.monotonic() - began
    copy = ENGINES["postgres"]()
    run(["psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--dbname", copy.url], dump)
    return Copy(copy, took)


def command(args):
    """A command of the product's; tells all that it said."""
    ran = run([binary(), *args])
    return ran.stdout + ran.stderr


def run(args, typed=None):
    ran = subprocess.run(args, input=typed, capture_output=True, text=True, env=clean_env(), timeout=ENDS_WITHIN)
    assert ran.returncode == 0, f"{args[0]} {args[1]} ended with {ran.returncode}: {ran.stderr.strip()[-500:]}"
    return ran


if __name__ == "__main__":
    main()
