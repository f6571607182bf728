#!/usr/bin/env python3
"""Webhooks of which some hang or are not there, while the server is killed: every event reaches every other one.

    tests/faults/hooks.py [--endpoints 50] [--hang 5] [--unreachable 4] [--rate 4] [--seconds 8] [--kills 3]
        [--engine sqlite|postgres]

First contacts are made, so many a second, with all endpoints but those that hang, and how long each
event takes from the request to each endpoint is measured. Then the same beside endpoints that take
the connection and say nothing, and beside some more that cannot be reached: half of them refuse the
connection, half swallow whatever asks for one. Then a few endpoints go away for some seconds while
contacts are made, and come back. At last the server is killed (kill -9) and started again meanwhile,
and a few endpoints refuse what they hear for the first time.

Passes when every event whose contact was acknowledged reaches every endpoint that answers, under
one id wherever and however often it comes, and the p99 of those beside the others is less than twice
what it was: a machine that is busy with something else is asked up to five times. Prints one line an
engine; exits 1 if one of them failed.
"""

import argparse
import asyncio
import json
import random
import socket
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from server import ENGINES, Server

WORKSPACE = 100  # endpoints that one workspace may have
SHORTEST = 0.1  # seconds: what is faster is lost in the noise of a busy machine
TRIES = 5  # how often those beside the hanging ones are measured, until nobody holds them up
OUTAGE = 2.5  # seconds for which some endpoints are away: less than until what failed is tried again
AWAY = 7  # every so many-th endpoint is one of them
FLAKY = 5  # every so many-th endpoint refuses what it hears for the first time after the kills begin
PATIENCE = 90.0  # seconds for what was claimed by a killed process, and for what is tried again


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoints", type=int, default=50)
    parser.add_argument("--hang", type=int, default=5)
    parser.add_argument("--unreachable", type=int, default=4)
    parser.add_argument("--rate", type=float, default=4.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args()
    print(f"seed {options.seed} (the moments of the kills; --seed {options.seed} repeats them)", flush=True)
    passed = True
    for engine in options.engine or ENGINES:
        store = ENGINES[engine]()
        server = Server(store, "--log", "error", "--private-webhooks").start()
        try:
            server.wait()
            print(f"{engine}: {asyncio.run(Scene(server, options).play())}", flush=True)
        except (AssertionError, OSError) as problem:
            print(f"{engine}: FAILED: {problem}\n{server.tail()}", flush=True)
            passed = False
        finally:
            server.kill()
            store.remove()
    sys.exit(0 if passed else 1)


class Scene:
    def __init__(self, server, options):
        self.server, self.options = server, options
        self.rng = random.Random(options.seed)
        self.sent = {}  # when the contact of an address was asked for
        self.acknowledged = []  # (workspace, address)
        self.heard = {}  # (address, endpoint): when it first came
        self.ids = {}  # address: the ids under which it came
        self.repeated = self.hung = 0
        self.is_flaky = False
        self.refused = set()
        self.open = set()  # the connections of endpoints, each a task

    async def play(self):
        options = self.options
        sink, away = [await self.listen() for _ in range(2)]
        self.port, self.away = [server.sockets[0].getsockname()[1] for server in (sink, away)]
        count = -(-(options.endpoints + options.unreachable) // WORKSPACE)
        self.keys = [self.server.create_key()] + [self.workspace_key(number) for number in range(1, count)]
        healthy = options.endpoints - options.hang
        self.healthy = {at: [n for n in range(healthy) if n % count == at] for at in range(count)}
        for number in range(healthy):
            port = self.port if number % AWAY else self.away
            await self.webhook(number % count, port, f"/answers/{number}")
        alone = await self.measure("alone")
        for number in range(healthy, options.endpoints):
            await self.webhook(number % count, self.port, f"/hangs/{number}")
        closed, hole, unreachable = Closed(), BlackHole(), []
        for number in range(options.endpoints, options.endpoints + options.unreachable):
            workspace, port = number % count, (closed if number % 2 else hole).port
            unreachable.append((workspace, await self.webhook(workspace, port, f"/unreachable/{number}")))
        # Those that hang or are not there are found out first: that is what happens to them once.
        await self.measure("found-out")
        first = [(workspace, await self.first_event(workspace, webhook)) for workspace, webhook in unreachable]
        for number in range(TRIES):
            beside = await self.measure(f"beside{number}")
            if beside < 2 * max(alone, SHORTEST):
                break
        await self.without_some(away)
        kills = await self.under_kills()
        tried = [await self.tries(workspace, event) for workspace, event in first]
        sink.close()
        self.back.close()
        self.server.kill()  # so that nobody waits for an answer any more
        await self.until_left()
        figures = (
            f"{options.endpoints} endpoints, {options.hang} of them hang and were called {self.hung} times, and"
            f" {options.unreachable} that cannot be reached and were tried {sum(tried)} times; p99 {alone * 1000:.0f} ms"
            f" without and {beside * 1000:.0f} ms beside them; {OUTAGE} s without one in {AWAY}; {kills} kills;"
            f" {len(self.acknowledged)} events reached all that answer, {self.repeated} deliveries came twice or more,"
            f" {len(self.refused)} were refused and tried again"
        )
        assert self.hung > 0, f"those that hang were never called: that proves nothing ({figures})"
        assert all(tried), f"some that cannot be reached were never tried: that proves nothing ({figures})"
        assert beside < 2 * max(alone, SHORTEST), f"others were held up ({figures})"
        return figures

    def workspace_key(self, number):
        row = uuid.uuid4()
        shown = f"'{row}'" if self.server.store.engine == "postgres" else f"x'{row.hex}'"
        self.server.store.run(f"INSERT INTO workspaces (id, name, created_at) VALUES ({shown}, 'W{number}', 0)")
        printed = self.server.command("keys", "create", "--name", "test", "--workspace", f"W{number}")
        return next(line for line in printed.splitlines() if line.startswith("re_"))

    async def listen(self, port=0):
        return await asyncio.start_server(self.answer, "127.0.0.1", port, backlog=1024)

    async def webhook(self, workspace, port, path):
        body = {"endpoint": f"http://127.0.0.1:{port}{path}", "events": ["contact.created"]}
        status, answer = await self.ask("POST", workspace, "/webhooks", body)
        assert status == 201, f"POST /webhooks: {status} {answer!r}"
        return json.loads(answer)["id"]

    async def first_event(self, workspace, webhook):
        """Where the first event that an endpoint is to hear is found."""
        path = f"/webhooks/{webhook}/events"
        _, answer = await self.ask("GET", workspace, f"{path}?limit=100")
        return f"{path}/{json.loads(answer)['data'][-1]['id']}"

    async def tries(self, workspace, event):
        """How often an event was tried at an endpoint that cannot be reached."""
        _, answer = await self.ask("GET", workspace, f"{event}/attempts")
        attempts = json.loads(answer)["data"]
        assert all(attempt["http_status_code"] == 0 for attempt in attempts), f"who cannot be reached answered: {attempts}"
        return len(attempts)

    async def measure(self, mark):
        """Makes contacts at a fixed rate; the p99 of how late all endpoints heard of them."""
        names = await self.send(mark, self.options.seconds)
        await self.until_heard(names, PATIENCE)
        late = sorted(self.heard[name, at] - self.sent[name] for w, name in names for at in self.healthy[w])
        return late[int(0.99 * (len(late) - 1))]

    async def send(self, mark, seconds):
        """Makes contacts, in one workspace after the other; returns those that were acknowledged."""
        began, sending = time.monotonic(), []
        for number in range(int(self.options.rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / self.options.rate - time.monotonic()))
            sending.append(asyncio.create_task(self.contact(number % len(self.keys), f"{mark}-{number}@example.com")))
        made = [made for made in await asyncio.gather(*sending) if made]
        self.acknowledged += made
        return made

    async def contact(self, workspace, address):
        self.sent[address] = time.monotonic()
        status, _ = await self.ask("POST", workspace, "/contacts", {"email": address})
        return (workspace, address) if status == 201 else None

    async def without_some(self, server):
        """Some endpoints refuse connections for a while; what happens meanwhile reaches them when they are back."""
        server.close()
        await server.wait_closed()
        names = await self.send("outage", OUTAGE)
        assert names, "nothing happened while some were away: that proves nothing"
        gone = [(name, at) for w, name in names for at in self.healthy[w] if at % AWAY == 0]
        assert gone and not any(heard in self.heard for heard in gone), "who was away heard of it"
        self.back = await self.listen(self.away)
        await self.until_heard(names, PATIENCE)

    async def under_kills(self):
        self.is_flaky = True
        kills = 0
        for number in range(self.options.kills):
            sending = asyncio.create_task(self.send(f"kill{number}", 4.0))
            await asyncio.sleep(self.rng.uniform(0.5, 3.0))
            self.server.kill()
            kills += 1
            self.server.start()
            await asyncio.to_thread(self.server.wait)
            await sending
        await self.until_heard(self.acknowledged, PATIENCE)
        await asyncio.sleep(1.0)
        several = {address: ids for address, ids in self.ids.items() if len(ids) != 1}
        assert not several, f"events came under several ids: {several}"
        return kills

    async def until_heard(self, names, patience):
        end = time.monotonic() + patience
        missing = None
        while time.monotonic() < end:
            missing = [(name, at) for w, name in names for at in self.healthy[w] if (name, at) not in self.heard]
            if not missing:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{len(missing)} deliveries did not come within {patience:.0f} s, the first: {missing[0]}")

    async def until_left(self):
        while self.open:
            await asyncio.wait(self.open)

    async def ask(self, method, workspace, path, body=None):
        headers = {"Authorization": f"Bearer {self.keys[workspace]}"}
        status, _, answer = await asyncio.to_thread(self.server.ask, method, path, body, headers, tolerant=True)
        return status, answer

    async def answer(self, reader, writer):
        task = asyncio.current_task()
        self.open.add(task)
        task.add_done_callback(self.open.discard)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            body = json.loads(await reader.readexactly(int(lines["content-length"])))
            _, kind, number = head.split(" ", 2)[1].split("/")
            if kind == "hangs":
                self.hung += 1
                await reader.read()  # until the other side has had enough
                return
            heard = (body["data"]["email"], int(number))
            self.ids.setdefault(heard[0], set()).add(lines["webhook-id"])
            status = b"204 No Content"
            if self.is_flaky and heard[1] % FLAKY == 0 and heard not in self.refused and heard not in self.heard:
                self.refused.add(heard)
                status = b"503 Service Unavailable"
            elif heard in self.heard:
                self.repeated += 1
            else:
                self.heard[heard] = time.monotonic()
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the server was killed
        finally:
            writer.close()


class Closed:
    """A port at which every connection is refused: it is taken, and nobody listens."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]


class BlackHole:
    """A port at which whatever asks for a connection gets no answer: those that wait to be accepted fill the queue."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(0)
        self.port = self.socket.getsockname()[1]
        self.waiting = [socket.socket() for _ in range(3)]
        for waiting in self.waiting:
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", self.port))


if __name__ == "__main__":
    main()
