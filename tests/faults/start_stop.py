#!/usr/bin/env python3
"""Starting and stopping: fast, in numbers, and without a loss.

    tests/faults/start_stop.py [--rounds 3] [--engine sqlite|postgres]

For each engine: several processes start at once on an empty PostgreSQL database; the
first answer on an existing store comes soon; SIGTERM under 32 writers, beside an idle
connection and a request that never arrives in full, ends the process with code 0 within
10 seconds, every answer that was begun is finished, and everything acknowledged is
there. Prints one line an engine; PostgreSQL is $POSTHORN_TEST_POSTGRES.
"""

import argparse
import asyncio
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load import History, Load, REDIRECT, stored_unanswered, verify
from server import ENGINES, Server

STARTS = 5
AT_ONCE = 4
# The promise is one second; a test machine may be busy with other things.
START_AT_MOST = 5.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args()
    failed = [engine for engine in options.engine or ENGINES if not start_stop(engine, options.rounds)]
    sys.exit(1 if failed else 0)


def start_stop(engine, rounds):
    store = ENGINES[engine]()
    servers = []
    try:
        # One SQLite file has one owner; a PostgreSQL database has any number, and they may meet at its creation.
        servers = [Server(store) for _ in range(AT_ONCE if engine == "postgres" else 1)]
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        for server in servers:
            server.stop()

        server = servers[0]
        starts = []
        for _ in range(STARTS):
            server.start()
            starts.append(server.wait())
            server.stop()

        server.start().wait()
        key = server.create_key()
        client_id = server.create_client(REDIRECT.format(port=1))
        load = Load(server.port, key, client_id)
        stops, acknowledged = [], 0
        for number in range(1, rounds + 1):
            history = History(f"stop{number}")
            # The last time also beside a request that never arrives in full and is waited for.
            half = key if number == rounds else None
            asyncio.run(load.run(history, lambda: terminate(server, half, stops)))
            server.start().wait()
            problems = verify(store, history, client_id)
            if history.partial:
                problems.append(f"{history.partial} answers stopped half-way")
            unasked = stored_unanswered(store, history)
            if unasked:
                problems.append(f"{unasked} events were stored, but their senders got no answer")
            assert not problems, f"{len(problems)} problems, the first of them:\n  " + "\n  ".join(problems[:20])
            acknowledged += history.acknowledged()
        server.stop()

        assert acknowledged >= 100 * rounds, f"only {acknowledged} writes acknowledged: that proves nothing"
        assert max(starts) < START_AT_MOST, f"the first answer took {max(starts):.2f} s"
        print(
            f"{engine}: first answer {statistics.median(starts) * 1000:.0f} ms after the start"
            f" (worst of {STARTS}: {max(starts) * 1000:.0f} ms); {rounds} times SIGTERM under load:"
            f" exit 0 after {', '.join(f'{stop:.2f}' for stop in stops)} s, {acknowledged} writes acknowledged, missing=0",
            flush=True,
        )
        return True
    except AssertionError as problem:
        print(f"{engine}: FAILED: {problem}", flush=True)
        return False
    finally:
        for server in servers:
            if server.process and server.process.poll() is None:
                server.kill()
        store.remove()


async def terminate(server, half, stops):
    """SIGTERM in the middle of the load, beside a connection that says nothing and, given a key, one that says half."""
    await asyncio.sleep(1.0)
    _, idle = await asyncio.open_connection("127.0.0.1", server.port)
    _, slow = await asyncio.open_connection("127.0.0.1", server.port)
    if half:
        slow.write(
            f"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {half}\r\n"
            'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name":'.encode()
        )
        await slow.drain()
    await asyncio.sleep(0.2)
    since = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    stops.append(await asyncio.to_thread(server.ended, since))
    idle.close()
    slow.close()


if __name__ == "__main__":
    main()
