#!/usr/bin/env python3
"""Clocks that are set while automations wait: delays count what really elapses.

    tests/faults/clock.py [--rounds 1] [--seed N] [--engine sqlite|postgres] [SCENARIO…]

step     an hour forward and back, on one process, on all, and on the PostgreSQL server itself
skew     two processes on one PostgreSQL whose clocks differ by a minute
killed   kill -9 with a claim held, and a start an hour back; on PostgreSQL its server's clock, too
ahead    a start an hour ahead, which is believed: that may well be how long nothing ran

Every event starts a run that sleeps for eight seconds and then changes its contact. How
long that took is measured by a clock that nobody sets. No run may be early by more than
two seconds or late by more than thirty, none may do anything twice, and ids must ascend
throughout. The clocks of the processes are those of libfaketime. Prints one line a
scenario; exits 1 if one of them broke the promise.
"""

import json
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cluster import Cluster
from scene import Stage, play_all
from server import ENGINES, Postgres, Server

DELAY = 8.0  # seconds that a run sleeps
EARLY, LATE = 2.0, 30.0  # seconds by which a run may be early, and late
HOUR, MINUTE = 3600, 60
LOOK = 0.2  # seconds between looks at the store


class FakeTime:
    """A clock that can be set while processes run by it."""

    def __init__(self, folder, name):
        self.file = Path(folder) / f"clock-{name}"
        self.set(0)
        found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        assert found, "libfaketime is missing: install the package faketime"
        self.env = {
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DISABLE_SHM": "1",
        }

    def set(self, ahead):
        """Seconds before or behind the true time, from now on."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{ahead:+d}\n")
        new.chmod(0o644)
        new.replace(self.file)


class Clocks(Stage):
    """Servers with clocks of their own, and what was sent and seen to end."""

    def __init__(self, engine, rng, rounds):
        super().__init__(engine, rng, rounds)
        self.folder = tempfile.TemporaryDirectory(prefix="posthorn-clock-")
        os.chmod(self.folder.name, 0o755)
        self.clocks, self.cluster_clock = [], None
        if engine == "postgres":
            self.cluster_clock = FakeTime(self.folder.name, "postgres")
            self.cluster = Cluster(env=self.cluster_clock.env).start()
            self.store = Postgres(self.cluster.url)
        else:
            self.store = ENGINES[engine]()
        self.sent, self.ended, self.order = {}, {}, []
        self.lock, self.done = threading.Lock(), threading.Event()
        self.watcher, self.hours = None, 0
        self.must_say = ""  # what the log of a server has to say

    def serve(self, count):
        """So many servers, the first time with the automation that all events start."""
        while len(self.servers) < count:
            clock = FakeTime(self.folder.name, f"server{len(self.servers)}")
            server = Server(self.store, "--log", "warn", "--private-webhooks")
            server.env = clock.env
            server.start().wait()
            self.servers.append(server)
            self.clocks.append(clock)
        if not self.watcher:
            self.key = self.servers[0].create_key()
            self.automation("tick", {"type": "delay", "config": {"duration": f"{DELAY:.0f} seconds"}}, mark())
            self.watcher = threading.Thread(target=self.watch, daemon=True)
            self.watcher.start()
        return self.servers

    def all_clocks(self):
        return self.clocks + ([self.cluster_clock] if self.cluster_clock else [])

    def automation(self, event, *steps):
        steps = [{"key": "start", "type": "trigger", "config": {"event_name": event}}] + [
            {"key": f"s{at}", **step} for at, step in enumerate(steps)
        ]
        ways = [{"from": one["key"], "to": two["key"]} for one, two in zip(steps, steps[1:])]
        self.post("/automations", {"name": event, "status": "enabled", "steps": steps, "connections": ways}, 201)

    def post(self, path, body, wanted, server=None):
        headers = {"Authorization": f"Bearer {self.key}"}
        status, _, answer = (server or self.servers[0]).ask("POST", path, body, headers)
        assert status == wanted, f"POST {path}: {status} {answer!r}"
        return json.loads(answer)

    def send(self, server=None, event="tick"):
        began = time.monotonic()
        email = f"u{len(self.order)}@example.com"
        occurrence = self.post("/events/send", {"event": event, "email": email}, 202, server)["id"]
        with self.lock:
            self.order.append(occurrence)
            if event == "tick":
                self.sent[occurrence] = began
        return occurrence

    def send_for(self, seconds):
        """Events to all servers in turn."""
        until, at = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            self.send(self.servers[at % len(self.servers)])
            at += 1
            time.sleep(0.25)

    def pause(self):
        time.sleep(self.rng.uniform(0.5, 2.0))

    def watch(self):
        """Notes when runs are first seen to have ended."""
        while not self.done.wait(LOOK):
            try:
                rows = self.store.query("SELECT occurrence_id FROM runs WHERE status <> 'running'")
            except Exception as problem:  # the store may be down for a moment
                print(f"  (not seen: {problem!s:.200})", flush=True)
                continue
            now = time.monotonic()
            for (occurrence,) in rows:
                self.ended.setdefault(occurrence, now)

    def settle(self):
        """Waits until all that was sent has ended, as long as that may take."""
        until = time.monotonic() + DELAY + LATE + 5
        while set(self.sent) - set(self.ended) and time.monotonic() < until:
            time.sleep(LOOK)

    def verify(self):
        self.settle()
        self.done.set()
        self.watcher.join()
        missing = [one for one in self.sent if one not in self.ended]
        assert not missing, f"{len(missing)} of {len(self.sent)} runs did not end: {missing[:5]}"
        off = [self.ended[one] - began - DELAY for one, began in self.sent.items()]
        assert min(off) >= -EARLY, f"a run was early by {-min(off):.1f} s"
        assert max(off) <= LATE, f"a run was late by {max(off):.1f} s"
        found = self.store.query("SELECT sequence, count(*) FROM contacts WHERE first_name = 'Done' GROUP BY sequence")
        assert [sequence for sequence, _ in found] == ["3"], f"a contact changed another number of times: {found}"
        assert sum(int(count) for _, count in found) == len(self.sent), f"{found} of {len(self.sent)}"
        assert self.order == sorted(self.order), "an id sorts before one that is older"
        said = "".join(server.log.read_text(errors="replace") for server in self.servers)
        assert self.must_say in said, f"no log says: {self.must_say}"
        return f"{len(off)} delays of {DELAY:.0f} s, from {min(off):+.1f} s to {max(off):+.1f} s off"

    def clear(self):
        self.done.set()
        super().clear()
        self.folder.cleanup()


def repeated(scenario):
    """Round after round on one stage; then all that was sent is looked at."""

    def act(stage):
        for _ in range(stage.rounds):
            scenario(stage)
        return stage.verify()

    return act


def mark():
    return {"type": "contact_update", "config": {"first_name": "Done"}}


def step(stage):
    """Every clock there is, forward and back, alone and together, while events come and delays run."""
    servers = stage.serve(1 if stage.engine == "sqlite" else 2)
    clocks = [stage.clocks[:1]]
    if len(servers) > 1:
        clocks += [stage.clocks, [stage.cluster_clock], stage.all_clocks()]
    for some in clocks:
        for ahead in stage.rng.sample([HOUR, -HOUR], 2) + [0]:
            stage.send_for(0.5)
            stage.pause()
            for clock in some:
                clock.set(ahead)
            stage.send_for(0.5)
    stage.settle()
    stage.must_say = "clock was set"


def skew(stage):
    stage.serve(2)
    stage.clocks[1].set(stage.rng.choice([MINUTE, -MINUTE]))
    stage.send_for(3)
    stage.settle()
    stage.clocks[1].set(0)
    stage.must_say = "is not the database's"


class Sink(threading.Thread):
    """Takes calls and never answers those that come before `answers`; counts them."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.calls, self.answers = 0, False
        self.start()

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            self.calls += 1
            if self.answers:
                connection.settimeout(5)
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                connection.close()
            else:
                self.held = connection

    def await_call(self, after, seconds):
        until = time.monotonic() + seconds
        while self.calls <= after and time.monotonic() < until:
            time.sleep(0.05)
        return self.calls > after


def killed(stage):
    """A process dies with a claim in its hands, and the next one starts an hour earlier."""
    (server,) = stage.serve(1)
    sink = Sink()
    url = f"http://127.0.0.1:{sink.listener.getsockname()[1]}/"
    event = f"call{len(stage.order)}"
    stage.automation(event, {"type": "webhook", "config": {"url": url}}, {"type": "exit"})
    stage.send_for(2)
    stage.send(event=event)
    assert sink.await_call(0, 10), "the webhook was never called"
    stage.pause()
    server.kill()
    for clock in stage.all_clocks():
        clock.set(-HOUR)
    sink.answers, began = True, time.monotonic()
    server.start().wait()
    stage.send_for(2)
    assert sink.await_call(1, LATE), f"what was claimed did not go on within {LATE:.0f} s"
    print(f"  what was claimed went on after {time.monotonic() - began:.1f} s", flush=True)
    stage.settle()
    for clock in stage.all_clocks():
        clock.set(0)


def ahead(stage):
    """Nothing ran for an hour, as far as anybody can tell: delays of an hour are over."""
    (server,) = stage.serve(1)
    event = f"later{len(stage.order)}"
    stage.automation(event, {"type": "delay", "config": {"duration": "1 hour"}}, {"type": "exit"})
    long = stage.send(event=event)
    stage.send_for(1)
    stage.settle()
    server.stop()
    stage.hours += 1
    for clock in stage.all_clocks():
        clock.set(stage.hours * (HOUR + MINUTE))
    server.start().wait()
    until = time.monotonic() + LATE
    while long not in stage.ended and time.monotonic() < until:
        time.sleep(LOOK)
    assert long in stage.ended, f"a delay of an hour was not over {LATE:.0f} s after the start"


SCENARIOS = {
    "step": (repeated(step), list(ENGINES)),
    "skew": (repeated(skew), ["postgres"]),
    "killed": (repeated(killed), list(ENGINES)),
    "ahead": (repeated(ahead), list(ENGINES)),
}

if __name__ == "__main__":
    play_all(__doc__, SCENARIOS, Clocks, rounds=1)
