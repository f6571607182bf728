#!/usr/bin/env python3
"""Bad destinations (F28): runs that call hosts which never answer keep nobody else waiting.

    tests/faults/webhooks.py [--silent 600] [--seconds 12] [--engine sqlite|postgres]

First events are sent, so many a second, whose automation calls a host that answers at
once, and how long each takes from the request to the call is measured. Then the same
again beside `--silent` runs of two other workspaces, each with four hosts that take the
connection and say nothing. At last nothing is sent, and what the process writes while
those runs wait is measured.

Passes when the others' rate is at least 0.95 of what it was, their p99 stays below two
seconds, each silent host is called by a few at a time and all by half of what there is
room for, and waiting writes next to nothing. Prints one line an engine; exits 1 if one
of them failed.
"""

import argparse
import asyncio
import json
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from server import ENGINES, Server

RATE = 20  # events a second to the host that answers
AT_LEAST = 0.95  # of the rate without the silent host
SLOWEST = 2.0  # seconds, p99 from the request to the call
QUIET = 10.0  # seconds in which nothing is sent
WRITTEN = 256 << 10  # bytes that may be written in one second of them
HOSTS = 4  # that are silent, of each of two workspaces
AT_ONCE, ALL_AT_ONCE = 16, 64  # calls of a process to one host that does not answer, and to all of these
PATIENCE = 40.0  # seconds until all of these are paused


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--silent", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args()
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
        self.key = server.create_key()
        self.others = [self.workspace_key(name) for name in ("W1", "W2")]
        self.sent, self.called = {}, {}
        self.silent_now, self.silent_most, self.silent_all = Counter(), 0, 0
        self.all_silent_most = 0

    async def play(self):
        answering = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        await self.automation(self.key, "quick", answering)
        silent = []
        for key in self.others:
            for number in range(HOSTS):
                silent.append(await asyncio.start_server(self.say_nothing, "127.0.0.1", 0))
                await self.automation(key, f"silent{number}", silent[-1])
        alone = await self.measure("alone")
        for at in range(0, self.options.silent, 500):
            some = range(at, min(at + 500, self.options.silent))
            events = [{"event": f"silent{n % HOSTS}", "email": f"s{n}@example.com", "payload": {}} for n in some]
            for key, half in zip(self.others, (events[: len(events) // 2], events[len(events) // 2 :])):
                await self.post(key, "/events/send/batch", half)
        await asyncio.sleep(1.0)
        beside = await self.measure("beside")
        paused = await self.paused(len(silent))
        before, began = self.bytes_written(), time.monotonic()
        await asyncio.sleep(QUIET)
        written = (self.bytes_written() - before) / (time.monotonic() - began)
        waiting = int(self.server.store.query("SELECT count(*) FROM runs WHERE destination IS NOT NULL")[0][0])
        for host in (answering, *silent):
            host.close()
        figures = (
            f"{self.options.silent} runs to {len(silent)} hosts that never answer, {waiting} of them still wait; they were"
            f" called {self.silent_all} times, one by {self.silent_most} at once at most and all by {self.all_silent_most},"
            f" and {paused} are paused; others {alone['rate']:.1f}/s alone and"
            f" {beside['rate']:.1f}/s beside it, p99 {alone['p99'] * 1000:.0f} and {beside['p99'] * 1000:.0f} ms;"
            f" waiting wrote {written / 1024:.0f} KiB/s"
        )
        assert paused == len(silent), f"some silent hosts were not called often enough: that proves nothing ({figures})"
        assert waiting >= self.options.silent * 0.9, f"nobody waits: that proves nothing ({figures})"
        assert self.silent_most <= AT_ONCE and self.all_silent_most <= ALL_AT_ONCE, f"too many calls at once ({figures})"
        assert beside["rate"] >= AT_LEAST * alone["rate"], f"others were held up ({figures})"
        assert beside["p99"] <= SLOWEST, f"others were slow ({figures})"
        assert written <= WRITTEN, f"waiting churns ({figures})"
        return figures

    def workspace_key(self, name):
        row = uuid.uuid4()
        shown = f"'{row}'" if self.server.store.engine == "postgres" else f"x'{row.hex}'"
        self.server.store.run(f"INSERT INTO workspaces (id, name, created_at) VALUES ({shown}, '{name}', 0)")
        printed = self.server.command("keys", "create", "--name", "test", "--workspace", name)
        return next(line for line in printed.splitlines() if line.startswith("re_"))

    async def paused(self, wanted):
        """How many hosts are left alone: all of them before long."""
        until = time.monotonic() + PATIENCE
        while True:
            count = int(self.server.store.query("SELECT count(*) FROM call_pauses")[0][0])
            if count >= wanted or time.monotonic() > until:
                return count
            await asyncio.sleep(0.5)

    async def automation(self, key, name, host):
        port = host.sockets[0].getsockname()[1]
        step = {"key": "call", "type": "webhook", "config": {"url": f"http://127.0.0.1:{port}/"}}
        start = {"key": "start", "type": "trigger", "config": {"event_name": name}}
        await self.post(key, "/events", {"name": name})
        connections = [{"from": "start", "to": "call"}]
        body = {"name": name, "status": "enabled", "steps": [start, step], "connections": connections}
        await self.post(key, "/automations", body)

    async def measure(self, mark):
        """Sends events at a fixed rate; the calls that came of them a second, and how late they were."""
        count = int(RATE * self.options.seconds)
        began, sending = time.monotonic(), []
        for at in range(count):
            await asyncio.sleep(max(0.0, began + at / RATE - time.monotonic()))
            sending.append(asyncio.create_task(self.send(f"{mark}-{at}")))
        await asyncio.gather(*sending)
        end = began + self.options.seconds + SLOWEST
        names = [f"{mark}-{at}" for at in range(count)]
        while time.monotonic() < end and any(name not in self.called for name in names):
            await asyncio.sleep(0.05)
        late = sorted(self.called[name] - self.sent[name] for name in names if name in self.called)
        assert late, "no call came through"
        return {"rate": len(late) / self.options.seconds, "p99": late[int(0.99 * (len(late) - 1))]}

    async def send(self, name):
        self.sent[name] = time.monotonic()
        event = {"event": "quick", "email": f"{name}@example.com", "payload": {"name": name}}
        await self.post(self.key, "/events/send", event)

    async def post(self, key, path, body):
        headers = {"Authorization": f"Bearer {key}"}
        status, _, answer = await asyncio.to_thread(self.server.ask, "POST", path, body, headers)
        assert status in (201, 202), f"POST {path}: {status} {answer!r}"

    async def answer(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
            name = json.loads(await reader.readexactly(length))["event"]["name"]
            self.called.setdefault(name, time.monotonic())
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            await writer.drain()
        finally:
            writer.close()

    async def say_nothing(self, reader, writer):
        port = writer.get_extra_info("sockname")[1]
        self.silent_all += 1
        self.silent_now[port] += 1
        self.silent_most = max(self.silent_most, self.silent_now[port])
        self.all_silent_most = max(self.all_silent_most, self.silent_now.total())
        try:
            while await reader.read(65536):
                pass
        except OSError:
            pass
        finally:
            self.silent_now[port] -= 1
            writer.close()

    def bytes_written(self):
        """By the process, to its store or to PostgreSQL's connection."""
        fields = Path(f"/proc/{self.server.process.pid}/io").read_text().split()
        return int(fields[fields.index("wchar:") + 1])


if __name__ == "__main__":
    main()
