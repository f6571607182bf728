#!/usr/bin/env python3
"""kill -9 under 32 concurrent writers: whatever was acknowledged is there afterwards.

    tests/faults/crash.py [--rounds 50] [--seed N] [--engine sqlite|postgres]

Each round lets the writers of `load.py` loose on the started binary, kills it after
0.1 to 1.0 seconds, starts it again on the same store and compares the store with what
the writers remember: every row, not a sample. Before the first round the binary is
killed several times while it creates the store, and at the end every event of all
rounds is looked up once more. Prints one line an engine; exits 1 at the first engine
that broke the promise. PostgreSQL is the one that $POSTHORN_TEST_POSTGRES points to.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load import History, Load, REDIRECT, verify
from server import ENGINES, Server

KILLED_STARTS = 10
LOOKED_UP_OVER_HTTP = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args()
    print(f"seed {options.seed} (the moments of the kills; --seed {options.seed} repeats them)", flush=True)
    failed = [e for e in options.engine or ENGINES if not crash(e, options.rounds, random.Random(options.seed))]
    sys.exit(1 if failed else 0)


def crash(engine, rounds, rng):
    """All rounds on one engine; True when nothing went wrong."""
    store = ENGINES[engine]()
    began = time.monotonic()
    try:
        server = Server(store)
        for _ in range(KILLED_STARTS):
            server.start()
            time.sleep(rng.uniform(0, 0.08))
            server.kill()
        server.start().wait()
        key = server.create_key()
        client_id = server.create_client(REDIRECT.format(port=1))
        load = Load(server.port, key, client_id)

        events, requests, unanswered, restarts = {}, 0, 0, []
        for number in range(1, rounds + 1):
            history = History(f"kill{number}")
            asyncio.run(load.run(history, lambda: kill_after(server, rng.uniform(0.1, 1.0))))
            server.start()
            restarts.append(server.wait())
            problems = verify(store, history, client_id) + look_up(server, key, history, rng)
            if problems:
                return complain(engine, f"round {number} of {rounds}", problems, server)
            events.update(history.events)
            requests += len(history.requests)
            unanswered += history.unanswered

        server.stop()
        problems = verify_all(store, events)
        integrity = store.integrity()
        if integrity != "ok":
            problems.append(f"integrity check: {integrity}")
        if len(events) < 10 * rounds or requests < rounds:
            problems.append(f"only {len(events)} events and {requests} requests acknowledged: that proves nothing")
        if problems:
            return complain(engine, "the end", problems, server)
        print(
            f"{engine}: {rounds} kills, {len(events)} events and {requests} authorization requests acknowledged,"
            f" missing=0 changed=0 twice=0 half-stored=0, {unanswered} requests cut off, integrity ok,"
            f" ready again after {statistics.median(restarts) * 1000:.0f} ms"
            f" (worst {max(restarts) * 1000:.0f} ms), {time.monotonic() - began:.0f} s",
            flush=True,
        )
        return True
    except AssertionError as problem:
        print(f"{engine}: FAILED: {problem}", flush=True)
        return False
    finally:
        if server.process and server.process.poll() is None:
            server.kill()
        store.remove()


async def kill_after(server, seconds):
    await asyncio.sleep(seconds)
    server.kill()


def look_up(server, key, history, rng):
    """Asks the restarted server itself for some of the round's events: it must see what the store holds."""
    problems = []
    for event in rng.sample(sorted(history.events), min(LOOKED_UP_OVER_HTTP, len(history.events))):
        status, _, body = server.ask("GET", f"/events/{event}", headers={"Authorization": f"Bearer {key}"})
        if status != 200 or json.loads(body).get("name") != history.events[event]:
            problems.append(f"GET /events/{event}: {status} {body[:200]!r}")
    return problems


def verify_all(store, events):
    """Every event acknowledged in any round is still there: later crashes took none of them."""
    stored = dict(store.query("SELECT id, name FROM events"))
    return [f"lost later: event {event} ({name})" for event, name in events.items() if stored.get(event) != name]


def complain(engine, when, problems, server):
    print(f"{engine}: FAILED at {when}: {len(problems)} problems, the first of them:")
    for problem in problems[:20]:
        print(f"  {problem}")
    print(server.tail(), flush=True)
    return False


if __name__ == "__main__":
    main()
