#!/usr/bin/env python3
"""PostgreSQL behind broken links: connections that fall silent, servers that hang, move or are full.

    tests/faults/links.py [--rounds 2] [--seed N] [SCENARIO…]

silent     connections swallow what is sent, without an end of them; new ones work
hung       all processes of PostgreSQL are stopped for 12 seconds and go on
failover   the primary hangs, and its synchronous standby is promoted
exhausted  three processes, a role that may not have as many connections as they want, and all of them cut
refused    the store stops until callers got 503, another process writes the same rows, the store goes on

After each fault every sender is served again within ten seconds; at the end `history.py`
compares the whole store with what the senders were told. Prints one line a scenario;
exits 1 if one of them broke the promise. `silent`, `exhausted` and `refused` use the
PostgreSQL that $POSTHORN_TEST_POSTGRES points to; the others start their own.
"""

import asyncio
import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cluster import Cluster
from load import Cut, exchange
from proxy import Proxy
from runs import Orders, summary
from scene import play_all
from server import Postgres, Server

BACK_WITHIN = 10.0  # seconds after a fault, or after what was away is there again
CLIENTS = 8  # of each process, in `exhausted`
LIMITS = (13, 4)  # connections for three processes that want eight each
FULL_RATE = 0.6  # of what is usual
MORE_ROUNDS = 10  # of `refused`, until a write of each kind was refused


async def served_again(senders, since, fault=None):
    """The seconds after `since` until every sender has been served by a request made after the fault."""
    while min(senders.heard) < (fault or since):
        elapsed = time.monotonic() - since
        left = sum(heard < (fault or since) for heard in senders.heard)
        assert elapsed < BACK_WITHIN, f"{left} senders are not served {elapsed:.0f} s after the fault"
        await asyncio.sleep(0.05)
    return time.monotonic() - since


def behind(store, *ports):
    """The arguments of a server that reaches the store at other ports of this machine."""
    front, _, rest = store.url.rpartition("@")
    _, _, name = rest.partition("/")
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return ["--data-dir", store.dir, "--database-url", f"{front}@{hosts}/{name}"]


def seconds(measured):
    return ", ".join(f"{value:.1f}" for value in measured)


async def reads_well(server, key, duration):
    """Reads for a while; all of them must be answered."""
    until, count = time.monotonic() + duration, 0
    while time.monotonic() < until:
        status, _, body = await asyncio.to_thread(
            server.ask, "GET", "/contacts?limit=1", None, {"Authorization": f"Bearer {key}"}
        )
        assert status == 200, f"a read after the recovery: {status} {body[:200]!r}"
        count += 1
    return count


# ---- silent -----------------------------------------------------------------


def silent(stage):
    """All connections fall silent, then half of them, then a single one."""
    store = Postgres()
    proxy = Proxy(int(store.url.rpartition("@")[2].partition("/")[0].partition(":")[2]))
    stage.at_end.append(proxy.close)
    store.args = behind(store, proxy.port)
    (server,) = stage.set(store=store)
    senders, back, silenced, reads = stage.senders(pause=0.2), [], [], []

    async def end():
        chances = [1.0, 0.5, None]
        for number in range(max(stage.rounds, len(chances))):
            await asyncio.sleep(stage.rng.uniform(1.0, 2.0))
            chance = chances[number % len(chances)]
            lucky = stage.rng.choice([c for c in proxy.connections if c.is_open and not c.is_silent])
            chosen = (lambda c: c is lucky) if chance is None else (lambda _: stage.rng.random() < chance)
            silenced.append(proxy.silence(chosen))
            back.append(await served_again(senders, time.monotonic()))
            await asyncio.sleep(max(0.0, BACK_WITHIN - back[-1]))
            reads.append(await reads_well(server, stage.scene.key, 2.0))

    asyncio.run(senders.run(end, events=400))
    assert silenced[0] > 1, f"{silenced} connections fell silent: that proves nothing"
    figures = stage.finish(senders, events=300, runs=600)
    return (
        f"{', '.join(map(str, silenced))} connections fell silent, all senders served again after {seconds(back)} s,"
        f" {sum(reads)} reads after that all answered; {summary(stage, figures)}, {stage.told.refused} times 503"
    )


# ---- hung and failover ------------------------------------------------------


def hung(stage):
    """PostgreSQL hangs for longer than anybody waits, and goes on."""
    stage.cluster = Cluster().start()
    stage.at_end.append(stage.cluster.resume)
    (server,) = stage.set(store=Postgres(stage.cluster.url))
    senders, back = stage.senders(pause=0.2), []

    async def end():
        for _ in range(stage.rounds):
            await asyncio.sleep(stage.rng.uniform(1.0, 2.0))
            refused = stage.told.refused
            stage.cluster.pause()
            await asyncio.sleep(12.0)
            assert stage.told.refused > refused, "nobody was told that the store hangs: that proves nothing"
            stage.cluster.resume()
            back.append(await served_again(senders, time.monotonic()))

    asyncio.run(senders.run(end, events=300))
    figures = stage.finish(senders, events=200, runs=400)
    return (
        f"hung for 12 s {len(back)} times, all senders served again {seconds(back)} s after its end;"
        f" {summary(stage, figures)}, {stage.told.refused} times 503"
    )


def failover(stage):
    """The primary hangs, the standby is promoted: the same process goes on there, and everything is there."""
    primary = stage.cluster = Cluster().start()
    standby = Cluster(primary)
    stage.at_end += [primary.resume, standby.resume]
    standby.start()
    primary.wait_for_standby()
    store = Postgres(primary.url)
    store.args = behind(store, primary.port, standby.port)
    stage.set(store=store)
    senders, measured = stage.senders(pause=0.2), {}

    async def end():
        await asyncio.sleep(3.0)
        fault = time.monotonic()
        primary.pause()
        await asyncio.to_thread(standby.promote)
        measured["promoted"] = time.monotonic() - fault
        store.url = store.url.replace(f":{primary.port}/", f":{standby.port}/")
        store.admin = standby.url
        measured["back"] = await served_again(senders, fault)
        # The old one wakes up, and nobody listens to it any more.
        primary.resume()
        await asyncio.sleep(3.0)

    asyncio.run(senders.run(end, events=300))
    primary.stop("immediate")
    figures = stage.finish(senders, events=200, runs=400)
    return (
        f"the standby was promoted {measured['promoted']:.1f} s after the primary hung, all senders served again"
        f" {measured['back']:.1f} s after the fault; {summary(stage, figures)}, {stage.told.refused} times 503"
    )


# ---- exhausted --------------------------------------------------------------


class Clients:
    """Callers of one process that write and read by turns, and count."""

    def __init__(self, server, key):
        self.server, self.key = server, key
        self.served = self.refused = 0
        self.wrong = []

    async def run(self, until):
        await asyncio.gather(*(self._client(number, until) for number in range(CLIENTS)))

    async def _client(self, number, until):
        writer = None
        head = f"HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.key}\r\n"
        body = json.dumps({"name": f"client {number}"}).encode()
        write = f"POST /events {head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        turns = [write.encode() + body, f"GET /events?limit=1 {head}\r\n".encode()]
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
            turn = 0
            while time.monotonic() < until:
                status, _, answer = await exchange(reader, writer, turns[turn % 2])
                turn += 1
                self.served += status in (200, 201)
                self.refused += status == 503
                if status not in (200, 201, 503):
                    self.wrong.append(f"{status} {answer[:200]!r}")
                await asyncio.sleep(0.02)
        except Cut:
            self.wrong.append("the connection was cut")
        finally:
            if writer:
                writer.close()


def exhausted(stage):
    """Whoever has a connection serves at full rate; whoever has none says so."""
    store = stage.store = Postgres()
    role = f"few_{store.name}"
    store.query(f"CREATE ROLE {role} LOGIN PASSWORD 'few'")
    store.query(f"ALTER DATABASE {store.name} OWNER TO {role}")
    host = store.url.rpartition("@")[2]
    store.args = ["--data-dir", store.dir, "--database-url", f"postgres://{role}:few@{host}"]
    stage.servers = [Server(store, "--log", "warn") for _ in range(3)]
    for server in stage.servers:
        server.start().wait()
    key = stage.servers[0].create_key()
    try:
        before = load(stage.servers, key, 4.0)
        told = [limited(stage, role, key, limit, before) for limit in LIMITS]
        store.query(f"ALTER ROLE {role} CONNECTION LIMIT -1")
        load(stage.servers, key, 3.0)
        healed = load(stage.servers, key, 3.0)
        assert not any(c.refused for c in healed), f"{[c.refused for c in healed]} times 503 without a limit"
    finally:
        for server in stage.servers:
            server.stop()
        stage.servers = []
        store.query(f"ALTER DATABASE {store.name} OWNER TO CURRENT_USER")
        store.query(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
        store.query(f"DROP ROLE {role}")
    return f"{'; '.join(told)} (before: {', '.join(str(c.served) for c in before)}), without a 503"


def limited(stage, role, key, limit, before):
    """So many connections for all of them, which are then cut again and again."""
    store = stage.store
    store.query(f"ALTER ROLE {role} CONNECTION LIMIT {limit}")
    for _ in range(10 * stage.rounds):
        cut_role(store, role)
        time.sleep(0.1)
    load(stage.servers, key, 3.0)  # until each has what there is for it
    after = load(stage.servers, key, 4.0)
    taken = int(store.query(f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}'")[0][0])
    wrong = [problem for clients in [*before, *after] for problem in clients.wrong]
    assert not wrong, f"{wrong[:5]}"
    assert not any(c.refused for c in before), f"{[c.refused for c in before]} times 503 before any fault"
    # Other load on the machine slows down all of them.
    usual = min(min(c.served for c in before), max(c.served for c in after))
    serving = [c for c in after if c.served]
    assert serving and taken <= limit, f"{len(serving)} processes serve, {taken} connections"
    shown = f"(served, refused) {[(c.served, c.refused) for c in after]}, before {[c.served for c in before]}"
    for clients in serving:
        assert clients.refused == 0, f"one that has connections refused: {shown}"
        assert clients.served >= FULL_RATE * usual, f"one that has connections is slow: {shown}"
    return (
        f"{limit} connections for three processes, {10 * stage.rounds} times all cut: {len(serving)} of them serve"
        f" {', '.join(str(c.served) for c in after)} requests in 4 s"
    )


def load(servers, key, duration):
    """Asks all of them at once for so many seconds."""
    every = [Clients(server, key) for server in servers]

    async def run():
        until = time.monotonic() + duration
        await asyncio.gather(*(clients.run(until) for clients in every))

    asyncio.run(run())
    return every


def cut_role(store, role):
    store.query(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'")


# ---- refused ----------------------------------------------------------------


def refused(stage):
    """What was refused does not happen later, over what another process has written since."""
    store = Postgres()
    proxy = Proxy(int(store.url.rpartition("@")[2].partition("/")[0].partition(":")[2]))
    stage.at_end.append(proxy.close)
    direct, store.args = store.args, behind(store, proxy.port)
    stage.store = store
    cut_off = Server(store, "--log", "warn").start()
    cut_off.wait()
    store.args = direct
    other = Server(store, "--log", "warn").start()
    other.wait()
    stage.servers = [cut_off, other]
    key = other.create_key()
    headers = {"Authorization": f"Bearer {key}"}
    told, number = {"PATCH": 0, "DELETE": 0}, 0
    while number < stage.rounds or (number < stage.rounds + MORE_ROUNDS and not all(told.values())):
        number += 1
        names = [f"round {number} event {n}" for n in range(80)]
        ids = [json.loads(ask(other, "POST", "/events", headers, {"name": name}, 201))["id"] for name in names]
        for event in ids:  # all writers of the one that is about to be cut off have a connection
            ask(cut_off, "PATCH", f"/events/{event}", headers, {"schema": {"first": "string"}}, 200)
        answers = asyncio.run(write_into_silence(proxy, cut_off, ids, headers))
        # One that was deleted before the newer write cannot be written; all others are there.
        written = [retried(other, f"/events/{event}", headers, {"schema": {"newer": "string"}}) for event in ids]
        proxy.deliver()
        time.sleep(3.0)
        for event, (method, status), is_written in zip(ids, answers, written):
            assert is_written or method == "DELETE", f"{event} is gone, and nobody has deleted it"
            if is_written:
                told[method] += status == 503
                got, _, body = other.ask("GET", f"/events/{event}", None, headers)
                is_newer = got == 200 and "newer" in json.loads(body)["schema"]
                assert is_newer, f"{event}: a {method} that got {status} happened over a newer write: {got} {body[:200]!r}"
    assert all(told.values()), f"{told} were refused: that proves nothing"
    for server in stage.servers:
        server.stop()
    return (
        f"{told['PATCH']} changes and {told['DELETE']} deletions refused while the link was held, then delivered;"
        " none of them happened over a newer write"
    )


async def write_into_silence(proxy, server, ids, headers):
    """Changes and deletes them by turns, half before and half after the link falls silent; returns methods and statuses."""

    async def write(event, place):
        await asyncio.sleep(0.1 * place / len(ids))
        method, body = ("DELETE", None) if place % 2 else ("PATCH", {"schema": {"older": "string"}})
        status, _, _ = await asyncio.to_thread(server.ask, method, f"/events/{event}", body, headers, True)
        return method, status

    async def fall_silent():
        await asyncio.sleep(0.05)
        while True:  # also those that are opened meanwhile: no write gets through
            proxy.silence(lambda connection: connection.writes, hold=True)
            await asyncio.sleep(0.01)

    # All at once: each is waited for as long as a caller is.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(len(ids)))
    holding = asyncio.create_task(fall_silent())
    answers = await asyncio.gather(*(write(event, place) for place, event in enumerate(ids)))
    holding.cancel()
    return answers


def ask(server, method, path, headers, body, expected):
    status, _, answer = server.ask(method, path, body, headers)
    assert status == expected, f"{method} {path}: {status} {answer[:200]!r}"
    return answer


def retried(server, path, headers, body):
    """As a client does: again after a 503, until it is done. Tells whether there was something to change."""
    until = time.monotonic() + BACK_WITHIN
    while True:
        status, _, answer = server.ask("PATCH", path, body, headers)
        if status in (200, 404):
            return status == 200
        assert status == 503 and time.monotonic() < until, f"PATCH {path}: {status} {answer[:200]!r}"
        time.sleep(0.1)


SCENARIOS = {act.__name__: (act, ["postgres"]) for act in (silent, hung, failover, exhausted, refused)}

if __name__ == "__main__":
    play_all(__doc__, SCENARIOS, Orders, rounds=2)
