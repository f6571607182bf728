#!/usr/bin/env python3
"""Automations under faults: an acknowledged event starts its runs, and every step of them is done once.

    tests/faults/runs.py [--rounds 50] [--seed N] [--engine sqlite|postgres] [SCENARIO…]

kill     kill -9 under 32 senders, started again at once, so many rounds on each engine
two      two processes on one PostgreSQL, one of them killed with claims in its hands
pause    two processes, one of them stopped for twice the lease, then let go on
outage   PostgreSQL stopped, crashed and its connections cut, under load

Nobody waits for the runs between the faults. At the end all must have come to theirs,
and `history.py` compares the whole store with what the senders of `scene.py` were told.
Prints one line a scenario; exits 1 if one of them broke the promise. PostgreSQL is the
one that $POSTHORN_TEST_POSTGRES points to; `outage` starts one of its own.
"""

import asyncio
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cluster import Cluster
from history import drain, verify
from scene import Scene, Senders, Stage, Told, place_many, play_all
from server import ENGINES, Postgres, Server

LEASE = 20.0  # seconds for which a worker has a run to itself
TAKEN_OVER_WITHIN = 30.0  # seconds after its worker's end
BACK_WITHIN = 5.0  # seconds after the database is back
AT_ONCE = 1000  # orders, three runs each, that become due together
LOAD_GOES_ON = 3.0  # seconds for which there are new events after the fault
CLAIM = 128  # runs that one worker claims at once
CATCHES = 5  # times that a process is stopped until it is caught with claims
BACKLOG = "SELECT count(*) FROM runs WHERE due_at <= extract(epoch from clock_timestamp()) * 1000000"


class Orders(Stage):
    """A stage with the automations of `scene.py`, and what senders were told."""

    def __init__(self, engine, rng, rounds):
        super().__init__(engine, rng, rounds)
        self.told = Told()

    def set(self, servers=1, store=None):
        self.store = store or ENGINES[self.engine]()
        self.servers = [Server(self.store, "--log", "warn").start() for _ in range(servers)]
        for server in self.servers:
            server.wait()
        self.scene = Scene(self.servers[0])
        return self.servers

    def senders(self, **options):
        return Senders(self.scene, self.told, [server.port for server in self.servers], self.rng, **options)

    def finish(self, senders, **least):
        """Nothing stays unanswered, everything comes to its end, and then all of it is compared."""
        asyncio.run(senders.finish())
        self.drained = drain(self.store)
        for server in self.servers:
            server.stop()
        return verify(self.store, self.scene, self.told, least)


def summary(stage, figures):
    """The figures that every scenario has."""
    return (
        f"{figures['events']} events acknowledged, {figures['runs']} runs completed ({figures['paid']} waits ended by"
        f" the event, {figures['late']} by the timeout), {figures['mails']} mails; lost=0 partial=0 twice=0;"
        f" {stage.told.cut} requests cut off, {stage.told.replayed} answers replayed"
    )


# ---- kill -------------------------------------------------------------------


def kill(stage):
    """kill -9 at random moments; the senders go on where they were, and nobody waits for the runs."""
    (server,) = stage.set()
    senders, restarts = stage.senders(), []
    for _ in range(stage.rounds):
        asyncio.run(senders.run(lambda: kill_after(server, stage.rng.uniform(0.1, 1.0))))
        restarts.append(server.start().wait())
    assert stage.told.refused == 0, f"{stage.told.refused} times 503 although the store was there"
    assert stage.told.cut >= stage.rounds // 2, f"only {stage.told.cut} requests cut off: that proves nothing"
    assert stage.told.replayed >= stage.rounds, f"only {stage.told.replayed} answers replayed: that proves nothing"
    n = stage.rounds
    figures = stage.finish(senders, events=20 * n, runs=30 * n, mails=10 * n, paid=n, late=n, changes=n, **lost(n // 2))
    return (
        f"{n} kills, {summary(stage, figures)}, {figures['lost claims']} claims lost to a kill and made good,"
        f" all ended {stage.drained:.0f} s after the last, integrity ok, ready again after"
        f" {statistics.median(restarts) * 1000:.0f} ms (worst {max(restarts) * 1000:.0f} ms)"
    )


def lost(count):
    return {"lost claims": count}


async def kill_after(server, seconds):
    await asyncio.sleep(seconds)
    server.kill()


# ---- two --------------------------------------------------------------------


def two(stage):
    """One of two processes dies while both work through thousands of runs; the other one does the rest."""
    survivor, victim = stage.set(servers=2)
    senders, measured = stage.senders(pause=0.4), {}

    async def end():
        orphans, since = await catch(stage, survivor, victim)
        victim.kill()
        senders.ports = [survivor.port]
        await adopted(stage, senders, orphans, since, measured)

    asyncio.run(senders.run(end))
    stage.servers = [survivor]
    figures = stage.finish(senders, events=AT_ONCE, runs=3 * AT_ONCE, paid=10, late=AT_ONCE // 2)
    return (
        f"{summary(stage, figures)}, the {measured['orphans']} runs that the killed process had claimed were brought on"
        f" {measured['seconds']:.1f} s after its end"
    )


async def catch(stage, survivor, victim):
    """Stops the victim at a moment at which it has claims in its hands; returns these, and when that was."""
    await asyncio.sleep(LOAD_GOES_ON)
    for attempt in range(CATCHES):
        await asyncio.to_thread(place_many, stage.scene, stage.told, survivor, f"bulk{attempt}", AT_ONCE)
        until = time.monotonic() + 5
        while len(await asyncio.to_thread(claims, stage.store)) <= CLAIM and time.monotonic() < until:
            pass
        victim.process.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        before = await asyncio.to_thread(claims, stage.store)
        await asyncio.sleep(2.0)  # far longer than a live worker takes
        orphans = before & await asyncio.to_thread(claims, stage.store)
        if orphans:
            return orphans, since
        victim.process.send_signal(signal.SIGCONT)
    raise AssertionError(f"stopped {CATCHES} times, the process never had claims: that proves nothing")


def claims(store):
    """The runs that somebody has claimed and not brought on, each with the number of the claim."""
    return set(store.query("SELECT id, attempt FROM runs WHERE status = 'running' AND attempt > settled"))


async def adopted(stage, senders, orphans, since, measured):
    """Lets the load end, and waits until another process has brought on what was claimed."""
    await asyncio.sleep(LOAD_GOES_ON)
    senders.over = True
    while left := orphans & await asyncio.to_thread(claims, stage.store):
        elapsed = time.monotonic() - since
        assert elapsed < TAKEN_OVER_WITHIN, (
            f"of {len(orphans)} claims {len(left)} are not taken over after {elapsed:.0f} s;"
            f" {stage.store.query(BACKLOG)[0][0]} runs are due"
        )
        await asyncio.sleep(0.1)
    measured |= {"orphans": len(orphans), "seconds": time.monotonic() - since}


# ---- pause ------------------------------------------------------------------


def pause(stage):
    """A process oversleeps its leases, wakes up and goes on writing: too late, and without effect."""
    survivor, sleeper = stage.set(servers=2)
    senders, measured = stage.senders(pause=0.4, patience=4.0), {}

    async def end():
        orphans, since = await catch(stage, survivor, sleeper)
        await adopted(stage, senders, orphans, since, measured)
        await asyncio.sleep(max(0.0, since + 2 * LEASE - time.monotonic()))
        measured["slept"] = time.monotonic() - since
        sleeper.process.send_signal(signal.SIGCONT)

    asyncio.run(senders.run(end))
    awake = asyncio.run(answers_again(sleeper))
    place_many(stage.scene, stage.told, sleeper, "after", AT_ONCE)
    figures = stage.finish(senders, events=2 * AT_ONCE, runs=6 * AT_ONCE, paid=10, late=AT_ONCE)
    return (
        f"asleep for {measured['slept']:.0f} s with {measured['orphans']} claims, which the other one had taken over"
        f" after {measured['seconds']:.1f} s; {summary(stage, figures)}, ready {awake:.1f} s after waking up"
    )


async def answers_again(server):
    """The seconds until the process says that it is ready."""
    since = time.monotonic()
    while (await asyncio.to_thread(server.ask, "GET", "/readyz", None, None, True))[0] != 200:
        assert time.monotonic() - since < BACK_WITHIN, "the process did not come back after its sleep"
        await asyncio.sleep(0.05)
    return time.monotonic() - since


# ---- outage -----------------------------------------------------------------


def outage(stage):
    """PostgreSQL goes away in three ways; the server says 503 and comes back by itself."""
    stage.cluster = Cluster().start()
    (server,) = stage.set(store=Postgres(stage.cluster.url))
    senders, back = stage.senders(), []

    async def end():
        for mode in ("fast", "immediate"):
            await asyncio.sleep(2.0)
            back.append(await away(stage, senders, server, mode))
        await asyncio.sleep(1.0)
        for _ in range(20):
            await asyncio.to_thread(cut_connections, stage.store)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)

    asyncio.run(senders.run(end, events=700))
    figures = stage.finish(senders, events=500, runs=1000, mails=300, paid=10, late=10, changes=10)
    return (
        f"{summary(stage, figures)}, {stage.told.refused} times 503, all senders were answered"
        f" {' and '.join(f'{seconds:.1f}' for seconds in back)} s after the database was back"
    )


async def away(stage, senders, server, mode):
    """Takes the database away for three seconds; returns how long after that every sender is served again."""
    refused = stage.told.refused
    await asyncio.to_thread(stage.cluster.stop, mode)
    await asyncio.sleep(3.0)
    status, headers, _ = await asyncio.to_thread(server.ask, "GET", "/readyz")
    assert status == 503, f"/readyz says {status} without a database"
    assert stage.told.refused > refused, "no sender was told that the store is away: that proves nothing"
    started = time.monotonic()
    await asyncio.to_thread(stage.cluster.start)
    since = time.monotonic()
    while min(senders.heard) < started:
        assert time.monotonic() - since < BACK_WITHIN, (
            f"{sum(heard < started for heard in senders.heard)} senders not served {BACK_WITHIN:.0f} s after"
            " the database was back"
        )
        await asyncio.sleep(0.05)
    return time.monotonic() - since


def cut_connections(store):
    store.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'posthorn'")


SCENARIOS = {
    "kill": (kill, list(ENGINES)),
    "two": (two, ["postgres"]),
    "pause": (pause, ["postgres"]),
    "outage": (outage, ["postgres"]),
}

if __name__ == "__main__":
    play_all(__doc__, SCENARIOS, Orders, rounds=50)
