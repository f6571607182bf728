#!/usr/bin/env python3
"""One bad destination (F28): runs that call a host which never answers keep nobody else waiting.

    tests/faults/webhooks.py [--silent 600] [--seconds 12] [--engine sqlite|postgres]

First events are sent, so many a second, whose automation calls a host that answers at
once, and how long each takes from the request to the call is measured. Then the same
again beside `--silent` runs whose host takes the connection and says nothing. At last
nothing is sent, and what the process writes while those runs wait is measured.

Passes when the others' rate is at least 0.95 of what it was, their p99 stays below two
seconds, the silent host is called by a few at a time, and waiting writes next to
nothing. Prints one line an engine; exits 1 if one of them failed.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from server import ENGINES, Server

RATE = 20  # events a second to the host that answers
AT_LEAST = 0.95  # of the rate without the silent host
SLOWEST = 2.0  # seconds, p99 from the request to the call
QUIET = 10.0  # seconds in which nothing is sent
WRITTEN = 256 << 10  # bytes that may be written in one second of them
AT_ONCE = 16  # calls of a process to one host


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
        self.sent, self.called = {}, {}
        self.silent_now, self.silent_most, self.silent_all = 0, 0, 0

    async def play(self):
        answering = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        silent = await asyncio.start_server(self.say_nothing, "127.0.0.1", 0)
        for name, host in (("quick", answering), ("silent", silent)):
            await self.automation(name, host.sockets[0].getsockname()[1])
        alone = await self.measure("alone")
        for at in range(0, self.options.silent, 500):
            some = range(at, min(at + 500, self.options.silent))
            await self.post(
                "/events/send/batch", [{"event": "silent", "email": f"s{n}@example.com", "payload": {}} for n in some]
            )
        await asyncio.sleep(1.0)
        beside = await self.measure("beside")
        await asyncio.sleep(1.0)
        before, began = self.bytes_written(), time.monotonic()
        await asyncio.sleep(QUIET)
        written = (self.bytes_written() - before) / (time.monotonic() - began)
        waiting = int(self.server.store.query("SELECT count(*) FROM runs WHERE destination IS NOT NULL")[0][0])
        for host in (answering, silent):
            host.close()
        figures = (
            f"{self.options.silent} runs to a host that never answers, {waiting} of them still wait; it was called"
            f" {self.silent_all} times, {self.silent_most} at once at most; others {alone['rate']:.1f}/s alone and"
            f" {beside['rate']:.1f}/s beside it, p99 {alone['p99'] * 1000:.0f} and {beside['p99'] * 1000:.0f} ms;"
            f" waiting wrote {written / 1024:.0f} KiB/s"
        )
        assert self.silent_all > 0, f"the silent host was never called: that proves nothing ({figures})"
        assert waiting >= self.options.silent * 0.9, f"nobody waits: that proves nothing ({figures})"
        assert self.silent_most <= AT_ONCE, f"too many calls at once ({figures})"
        assert beside["rate"] >= AT_LEAST * alone["rate"], f"others were held up ({figures})"
        assert beside["p99"] <= SLOWEST, f"others were slow ({figures})"
        assert written <= WRITTEN, f"waiting churns ({figures})"
        return figures

    async def automation(self, name, port):
        step = {"key": "call", "type": "webhook", "config": {"url": f"http://127.0.0.1:{port}/"}}
        start = {"key": "start", "type": "trigger", "config": {"event_name": name}}
        await self.post("/events", {"name": name})
        await self.post(
            "/automations",
            {"name": name, "status": "enabled", "steps": [start, step], "connections": [{"from": "start", "to": "call"}]},
        )

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
        await self.post("/events/send", {"event": "quick", "email": f"{name}@example.com", "payload": {"name": name}})

    async def post(self, path, body):
        headers = {"Authorization": f"Bearer {self.key}"}
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
        self.silent_all += 1
        self.silent_now += 1
        self.silent_most = max(self.silent_most, self.silent_now)
        try:
            while await reader.read(65536):
                pass
        except OSError:
            pass
        finally:
            self.silent_now -= 1
            writer.close()

    def bytes_written(self):
        """By the process, to its store or to PostgreSQL's connection."""
        fields = Path(f"/proc/{self.server.process.pid}/io").read_text().split()
        return int(fields[fields.index("wchar:") + 1])


if __name__ == "__main__":
    main()
