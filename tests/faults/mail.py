#!/usr/bin/env python3
"""Mail under kill -9: nothing is lost, and only what the journal calls uncertain arrives twice.

    tests/faults/mail.py [--rounds 50] [--seed N] [--engine sqlite|postgres] [SCENARIO…]

kill     a process that delivers is killed and started again, so many rounds on each engine
two      two processes on one PostgreSQL; in each round one of them is killed

Each round hands in mails and kills while they are on their way to a server in this process,
which notes every message it is given whole, whether or not its reply gets through. At the end
all must have arrived. A message that arrived twice must have been told of as uncertain, as often
as it was repeated, and no more are uncertain than there were dialogues at the kills. Prints one
line a scenario; exits 1 if one of them broke the promise. PostgreSQL is the one that
$POSTHORN_TEST_POSTGRES points to.
"""

import asyncio
import collections
import json
import random
import re
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scene import Stage, play_all
from server import ENGINES, Server

MAILS = 2000  # at least, in all rounds together
BATCH = 100  # mails a request
CONNECTIONS = 16  # that one process has to a relay
REPLY_WITHIN = 0.04  # seconds after the final dot
DRAINED_WITHIN = 180.0  # seconds: a killed process's claims are free after 30
WAITING = "SELECT count(*) FROM email_recipients WHERE due_at IS NOT NULL"
UNCERTAIN = (
    "SELECT e.message_id, count(*) FROM email_events v JOIN emails e ON e.id = v.email_id"
    " WHERE v.type = 'delivery_delayed' AND v.detail LIKE '%\"uncertain\":true%' GROUP BY e.message_id"
)
ENDED = "SELECT message_id, state FROM emails"


class Sink:
    """A mail server on a thread of its own: how often it was given which message."""

    def __init__(self):
        self.taken = collections.Counter()
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self._converse, "127.0.0.1", 0, limit=1 << 20))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()

    async def _converse(self, reader, writer):
        try:
            writer.write(b"220 sink\r\n")
            while line := await reader.readline():
                command = line[:4].upper()
                if command == b"EHLO":
                    writer.write(b"250-sink\r\n250-PIPELINING\r\n250 8BITMIME\r\n")
                elif command == b"DATA":
                    writer.write(b"354 go on\r\n")
                    await self._take(reader)
                    writer.write(b"250 2.0.0 taken\r\n")
                else:
                    writer.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # that is what a kill looks like
        finally:
            writer.close()

    async def _take(self, reader):
        message = await reader.readuntil(b"\r\n.\r\n")
        self.taken[re.search(rb"(?im)^Message-ID: *(<[^>]+>)", message)[1].decode()] += 1
        await asyncio.sleep(random.uniform(0, REPLY_WITHIN))


class Post(Stage):
    """Servers that hand all mail to the sink, and the ids of the mails that they have acknowledged."""

    def set(self, servers=1):
        self.store, self.sink, self.ids = ENGINES[self.engine](), Sink(), []
        relay = f"smtp://127.0.0.1:{self.sink.port}"
        options = ["--smtp-url", relay, "--senders", "any", "--log", "error"]
        self.servers = [Server(self.store, *options).start() for _ in range(servers)]
        for server in self.servers:
            server.wait()
        self.key = self.servers[0].create_key()
        return self.servers

    def hand_in(self, server, count):
        for _ in range(count):
            number = len(self.ids)
            mails = [
                {"from": "a@sender.example", "to": f"r{number + at}@example.com", "subject": "Hello", "text": "Hello\n"}
                for at in range(BATCH)
            ]
            status, _, body = server.ask("POST", "/emails/batch", mails, {"Authorization": f"Bearer {self.key}"})
            assert status in (200, 201), f"POST /emails/batch: {status} {body[:300]!r}"
            self.ids += [mail["id"] for mail in json.loads(body)["data"]]

    def drain(self):
        began = time.monotonic()
        while int(self.store.query(WAITING)[0][0]) > 0:
            assert time.monotonic() - began < DRAINED_WITHIN, f"{self.store.query(WAITING)[0][0]} recipients still wait"
            time.sleep(0.2)
        return time.monotonic() - began

    def verify(self, kills):
        drained = self.drain()
        for server in self.servers:
            server.stop()
        wanted = {f"<{id}@sender.example>" for id in self.ids}
        lost = wanted - set(self.sink.taken)
        assert not lost, f"{len(lost)} of {len(wanted)} acknowledged mails never arrived: {sorted(lost)[:3]}"
        undelivered = [id for id, state in self.store.query(ENDED) if id in wanted and state != "40"]
        assert not undelivered, f"{len(undelivered)} mails arrived and are not delivered: {undelivered[:3]}"
        uncertain = {id: int(count) for id, count in self.store.query(UNCERTAIN)}
        repeated = {id: count - 1 for id, count in self.sink.taken.items() if count > 1}
        unexplained = {id for id, count in repeated.items() if count > uncertain.get(id, 0)}
        assert not unexplained, f"{len(unexplained)} mails arrived twice and were never uncertain: {sorted(unexplained)[:3]}"
        most = kills * CONNECTIONS
        assert sum(uncertain.values()) <= most, f"{sum(uncertain.values())} uncertain after {kills} kills, {most} at most"
        assert self.store.integrity() == "ok"
        return (
            f"{kills} kills, {len(wanted)} mails acknowledged, lost=0, {sum(uncertain.values())} uncertain (at most"
            f" {most}), {sum(repeated.values())} of these arrived twice and no other did, all delivered"
            f" {drained:.0f} s after the last kill, integrity ok"
        )


def kill(stage):
    """kill -9 at random moments of a delivery."""
    (server,) = stage.set()
    batches = -(-MAILS // (BATCH * stage.rounds))
    for _ in range(stage.rounds):
        stage.hand_in(server, batches)
        time.sleep(stage.rng.uniform(0.0, 0.5))
        server.kill()
        server.start().wait()
    return stage.verify(stage.rounds)


def two(stage):
    """One of two processes dies in each round; the other one goes on."""
    servers = stage.set(servers=2)
    batches = -(-MAILS // (BATCH * stage.rounds))
    for _ in range(stage.rounds):
        stage.hand_in(stage.rng.choice(servers), batches)
        time.sleep(stage.rng.uniform(0.0, 0.3))
        victim = stage.rng.choice(servers)
        victim.kill()
        victim.start().wait()
    return stage.verify(stage.rounds)


SCENARIOS = {"kill": (kill, ["sqlite", "postgres"]), "two": (two, ["postgres"])}

if __name__ == "__main__":
    play_all(__doc__, SCENARIOS, Post, rounds=50)
