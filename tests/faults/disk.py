#!/usr/bin/env python3
"""A disk that fails under 32 concurrent writers: whatever was acknowledged is there, what was refused is not.

    tests/faults/disk.py [SCENARIO…]

full     no space left for two seconds: writes get 503, reads go on, service returns by itself
quota    the same, when it is a quota that is used up
flush    the flush of a commit fails: the process ends by itself and is started again, several times
pretend  a flush fails, and the system goes on to show what the disk does not hold; then the power is cut
open     what a killed process had not flushed is flushed before the next one answers
gone     the disk fails or can only be read; the store, its log or its folder is moved away or deleted
power    the power is cut again and again: what was not flushed is lost, all of it or some

SQLite only: `failing_disk.c`, compiled here, stands between the binary and its files. A
flush that fails loses what it should have kept. Afterwards every row is compared with
what the writers remember, and with what readers have seen. Prints one line a scenario;
exits 1 if one of them failed.
"""

import argparse
import asyncio
import http.client
import json
import random
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from failing_disk import ENDED_WITHIN, PAUSE, Disk, Writers, compare, ended, is_refusal, sound, stop_whole
from load import Cut, History, WRITERS, exchange
from server import Server, Sqlite
from untrusted import gone, open_, pretend

LOAD = 1.0  # seconds of writing before and after each fault
FULL = 2.0  # seconds without space
BACK_WITHIN = 5.0  # seconds after there is space again
CARRIED_WITHIN = 1.5  # seconds in which something of the log is carried to the file
FLUSHES = 4  # that fail, one in the life of each process
CUTS = 30  # of the power, one in the life of each process
CUT_AFTER = (0.1, 0.6)  # seconds of writing
READERS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="*", help=", ".join(SCENARIOS))
    names = parser.parse_args().scenario or list(SCENARIOS)
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        parser.error(f"there is no scenario {', '.join(unknown)}")
    began = time.monotonic()
    disk = Disk()
    try:
        failed = [name for name in names if not play(name, disk)]
    finally:
        disk.remove()
    passed = len(names) - len(failed)
    print(f"{passed} of {len(names)} scenarios passed, {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


def play(name, disk):
    """One scenario on a store of its own; True when nothing went wrong."""
    store = Sqlite()
    server = Server(store, "--log", "error")  # a warning for every refusal would be a load of its own
    began = time.monotonic()
    try:
        server.start().wait()
        figures = SCENARIOS[name](disk, server)
        print(f"{name}: {figures}, integrity ok, {time.monotonic() - began:.0f} s", flush=True)
        return True
    except (AssertionError, OSError, http.client.HTTPException) as problem:
        print(f"{name}: FAILED: {problem}\n{server.tail()}", flush=True)
        return False
    finally:
        disk.mend()
        if server.process.poll() is None:
            server.kill()
        store.remove()


# ---- full -------------------------------------------------------------------


def quota(disk, server):
    """There is space for others."""
    return full(disk, server, "quota")


def full(disk, server, kind=""):
    """There is no space for a while."""
    key, history = server.create_key(), History("full")
    writers = Writers(server, key)
    (log,) = Path(server.store.dir).glob("*.db-wal")
    (store_file,) = Path(server.store.dir).glob("*.db")
    problems, looks, back = [], 0, 0.0

    async def end():
        nonlocal looks, back
        await asyncio.sleep(LOAD)
        before = len(writers.acknowledged)
        disk.full.write_text(kind)
        since = time.monotonic()
        await asyncio.sleep(0.1)  # a write that was under way may still have found space
        size = log.stat().st_size
        while time.monotonic() < since + FULL:
            looks += 1
            problems.extend(await asyncio.to_thread(look, server, key))
            await asyncio.sleep(PAUSE)
        until = time.monotonic()
        if log.stat().st_size > size:
            problems.append(f"the log grew from {size} to {log.stat().st_size} bytes on a full disk")
        disk.full.unlink()

        freed = time.monotonic()
        while min(writers.served) < freed:
            late = sum(served < freed for served in writers.served)
            assert time.monotonic() < freed + BACK_WITHIN, f"{late} writers not served {BACK_WITHIN:.0f} s later"
            await asyncio.sleep(0.005)
        again = time.monotonic()
        back = again - freed
        await asyncio.sleep(LOAD)
        carried = store_file.stat().st_mtime_ns
        await asyncio.sleep(CARRIED_WITHIN)
        if store_file.stat().st_mtime_ns == carried:
            problems.append("the log is not carried to the file any more")
        status = (await asyncio.to_thread(server.ask, "GET", "/readyz"))[0]
        if status != 200:
            problems.append(f"/readyz says {status} when there is space again")
        if history.unanswered:
            problems.append(f"{history.unanswered} writers lost their connection")
        await asyncio.to_thread(server.stop)

        acknowledged, refused = writers.acknowledged, writers.refused.values()
        wrongly = sum(since < sent and answered < until for sent, answered in acknowledged)
        needless = sum(answered < since or again < sent for sent, answered in refused)
        if wrongly or needless:
            problems.append(f"{wrongly} writes acknowledged on a full disk, {needless} refused on another")
        if before < 100 or len(acknowledged) < before + 100 or len(refused) < WRITERS:
            problems.append(f"{len(acknowledged)} acknowledged and {len(refused)} refused: that proves nothing")

    asyncio.run(writers.run(history, end))
    history.sent_events -= writers.refused.keys()  # as if nobody had asked for them: they must not be there
    compare(server.store, history, problems)
    sound(server.store)
    return (
        f"{FULL:.0f} s without space, {len(writers.refused)} writes refused with 503 and none of them stored,"
        f" {looks} looks at lists and health, all writers served again after {back * 1000:.0f} ms,"
        f" {len(history.events)} events acknowledged, missing=0"
    )


def look(server, key):
    """What can be seen of a server on a full disk: it lives, it reads, and it says that it cannot write."""
    events = server.ask("GET", "/events?limit=10", headers={"Authorization": f"Bearer {key}"})
    lives = server.ask("GET", "/healthz")
    ready = server.ask("GET", "/readyz")
    problems = []
    if events[0] != 200 or len(json.loads(events[2])["data"]) != 10:
        problems.append(f"GET /events on a full disk: {events[0]} {events[2][:200]!r}")
    if lives[0] != 200:
        problems.append(f"/healthz says {lives[0]} on a full disk")
    if not is_refusal(ready[0], ready[1].get("retry-after"), ready[2]):
        problems.append(f"/readyz on a full disk: {ready[0]} {ready[2][:200]!r}")
    return problems


# ---- flush ------------------------------------------------------------------


def flush(disk, server):
    """A commit cannot be flushed, and the next process finds the log without it."""
    key = server.create_key()
    events, refused, cut, ends = {}, 0, 0, []
    for number in range(1, FLUSHES + 1):
        history, writers, problems = History(f"flush{number}"), Writers(server, key), []

        async def end():
            await asyncio.sleep(LOAD)
            disk.flush.touch()
            touched = time.monotonic()
            while disk.flush.exists():
                assert time.monotonic() < touched + 5.0, "nothing was flushed for 5 s: that proves nothing"
                await asyncio.sleep(0.001)
            failed = time.monotonic()
            ends.append(await asyncio.to_thread(ended, server, failed))
            late = sum(sent > failed for sent, _ in writers.acknowledged)
            if late:
                problems.append(f"{late} writes sent and acknowledged after the failed flush")

        asyncio.run(writers.run(history, end))
        server.start().wait()
        compare(server.store, history, problems)
        assert len(history.events) >= 100, f"only {len(history.events)} events acknowledged: that proves nothing"
        events |= history.events
        refused += len(writers.refused)
        cut += history.unanswered
    status, _, body = server.ask("POST", "/events", {"name": "after"}, {"Authorization": f"Bearer {key}"})
    assert status == 201, f"POST /events after the last start: {status} {body[:200]!r}"
    stop_whole(server, events)
    return (
        f"{FLUSHES} flushes failed, the process ended with an error after {statistics.median(ends) * 1000:.0f} ms"
        f" (worst {max(ends) * 1000:.0f} ms), {refused} writes refused with 503 and {cut} cut off,"
        f" {len(events)} events acknowledged, missing=0"
    )


# ---- power ------------------------------------------------------------------


def power(disk, server):
    """The power is cut, and what was not flushed is not there when it comes back."""
    key = server.create_key()
    events, seen, cut, chance = {}, 0, 0, random.Random(1)
    for number in range(1, CUTS + 1):
        history, writers, reading = History(f"power{number}"), Writers(server, key), set()

        async def end():
            await asyncio.sleep(chance.uniform(*CUT_AFTER))
            disk.power.touch()
            code = await asyncio.to_thread(server.process.wait, ENDED_WITHIN)
            assert code == -signal.SIGKILL, f"exit code {code} instead of a power cut"

        async def all_at_once():
            looking = [asyncio.create_task(look_on(server, key, history.tag, reading)) for _ in range(READERS)]
            await writers.run(history, end)
            await asyncio.gather(*looking)

        asyncio.run(all_at_once())
        server.start().wait()
        compare(server.store, history, [])
        stored = {event for (event,) in server.store.query("SELECT id FROM events")}
        lost = reading - stored
        assert not lost, f"{len(lost)} events that somebody had read are gone, one of them {lost.pop()}"
        events |= history.events
        seen += len(reading)
        cut += history.unanswered
    assert len(events) >= 100 * CUTS / 3 and seen >= CUTS, f"{len(events)} events, {seen} read: that proves nothing"
    stop_whole(server, events)
    return (
        f"the power cut {CUTS} times, {cut} writes cut off, {len(events)} events acknowledged, missing=0,"
        f" {seen} of them read before the power was cut, missing=0"
    )


async def look_on(server, key, tag, seen):
    """Reads the newest events until the connection is lost, and notes which ones it was shown."""
    request = f"GET /events?limit=20 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while True:
            status, _, body = await exchange(reader, writer, request)
            assert status == 200, f"GET /events: {status} {body[:200]!r}"
            seen.update(event["id"] for event in json.loads(body)["data"] if event["name"].startswith(f"{tag}."))
    except (Cut, OSError):
        return


SCENARIOS = {
    "full": full,
    "quota": quota,
    "flush": flush,
    "pretend": pretend,
    "open": open_,
    "gone": gone,
    "power": power,
}

if __name__ == "__main__":
    main()
