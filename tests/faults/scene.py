"""What the fault tests of automations play with: a stage, three automations, and senders that set them off.

A script names its scenarios and on which engines each is played; `play_all` plays those
that the command line asks for, each on a stage of its own.

An order is placed: one automation waits a second, adds the contact to a segment and
mails; one changes the contact if the total is high; one waits two seconds for the
payment. Every request has a key of its own, and a sender that got no answer sends the
same request under the same key until it gets one, from whichever process is there.
"""

import argparse
import asyncio
import http.client
import json
import random
import sys
import time

from load import Cut, exchange
from server import ENGINES

SENDERS = 32
PLACED, PAID = "order.placed", "order.paid"
DELAY, TIMEOUT = 1_000_000, 2_000_000  # microseconds, as the steps below have them
ENOUGH_WITHIN = 60.0
HIGH = 50  # a total above this changes the contact
SENDER = "Shop <shop@shop.example>"


def play_all(doc, scenarios, make_stage, rounds):
    """Plays the scenarios of a script (name -> function and engines) and ends the process, with 1 if one failed."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("scenario", nargs="*", help=", ".join(scenarios))
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args()
    unknown = [name for name in options.scenario if name not in scenarios]
    if unknown:
        parser.error(f"there is no scenario {', '.join(unknown)}")
    print(f"seed {options.seed} (the moments of the faults; --seed {options.seed} repeats them)", flush=True)
    passed = True
    for name in options.scenario or scenarios:
        scenario, engines = scenarios[name]
        for engine in [one for one in options.engine or ENGINES if one in engines]:
            stage = make_stage(engine, random.Random(options.seed), options.rounds)
            passed &= play(f"{name}, {engine}", scenario, stage)
    sys.exit(0 if passed else 1)


def play(title, scenario, stage):
    """One scenario on its stage; True when nothing went wrong."""
    began = time.monotonic()
    try:
        figures = scenario(stage)
        print(f"{title}: {figures}, {time.monotonic() - began:.0f} s", flush=True)
        return True
    except (AssertionError, OSError, http.client.HTTPException) as problem:
        print(f"{title}: FAILED: {problem!s:.8000}")
        for server in stage.servers:
            print(f"  the log of the server on port {server.port}:\n{server.tail()}", flush=True)
        return False
    finally:
        stage.clear()


class Stage:
    """What a scenario plays on: a store and servers on it, which go when it is over."""

    def __init__(self, engine, rng, rounds):
        self.engine, self.rng, self.rounds = engine, rng, rounds
        self.servers, self.store, self.cluster = [], None, None
        self.at_end = []  # what else has to be done before they go

    def clear(self):
        for act in self.at_end:
            act()
        for server in self.servers:
            if server.process and server.process.poll() is None:
                server.kill()
        if self.store:
            self.store.remove()
        if self.cluster:
            self.cluster.remove()


class Scene:
    """The automations of one store, made over HTTP."""

    def __init__(self, server):
        self.key = server.create_key()
        self.server = server
        for name in (PLACED, PAID):
            self._make("/events", {"name": name, "schema": {"mark": "string", "total": "number"}})
        self.segment = self._make("/segments", {"name": "Customers"})
        self.mailing = self._automation(
            {"key": "delay", "type": "delay", "config": {"duration": "1 second"}},
            {"key": "join", "type": "add_to_segment", "config": {"segment_id": self.segment}},
            {"key": "mail", "type": "send_email", "config": mail()},
        )
        self.changing = self._automation(
            {
                "key": "high",
                "type": "condition",
                "config": {"type": "rule", "field": "event.total", "operator": "gt", "value": HIGH},
            },
            {"key": "change", "type": "contact_update", "config": {"first_name": {"var": "event.mark"}}},
            {"key": "low", "type": "exit"},
            ways=[("high", "change", "condition_met"), ("high", "low", "condition_not_met")],
        )
        self.waiting = self._automation(
            {"key": "wait", "type": "wait_for_event", "config": {"event_name": PAID, "timeout": "2 seconds"}},
            {"key": "paid", "type": "exit"},
            {"key": "late", "type": "exit"},
            ways=[("wait", "paid", "event_received"), ("wait", "late", "timeout")],
        )
        self.automations = {self.mailing, self.changing, self.waiting}

    def _make(self, path, body):
        status, _, answer = self.server.ask("POST", path, body, {"Authorization": f"Bearer {self.key}"})
        assert status == 201, f"POST {path}: {status} {answer!r}"
        return json.loads(answer)["id"]

    def _automation(self, *steps, ways=None):
        """An enabled automation; its steps form a chain unless the ways from the first are given."""
        keys = [step["key"] for step in steps]
        ways = ways or [(one, other, None) for one, other in zip(keys, keys[1:])]
        connections = [{"from": "start", "to": keys[0]}]
        connections += [{"from": a, "to": b} | ({"type": kind} if kind else {}) for a, b, kind in ways]
        trigger = {"key": "start", "type": "trigger", "config": {"event_name": PLACED}}
        body = {"name": keys[0], "status": "enabled", "steps": [trigger, *steps], "connections": connections}
        return self._make("/automations", body)


def mail():
    return {"from": SENDER, "subject": "Your order", "text": {"var": "event.mark"}}


class Order:
    """One request: what happens, to whom, and under which key."""

    def __init__(self, event, mark, contact, total):
        self.event, self.mark, self.email, self.total = event, mark, f"{contact}@example.com", total

    def body(self):
        return {"event": self.event, "email": self.email, "payload": {"mark": self.mark, "total": self.total}}


class Told:
    """What the senders sent and what they were told."""

    def __init__(self):
        self.sent = {}  # mark -> Order, noted before it goes out
        self.acknowledged = {}  # mark -> (id of the occurrence, microseconds of the wall clock)
        self.wrong = []  # answers that nothing explains
        self.cut = 0  # requests whose connection went away, or that were not answered in time
        self.refused = 0  # 503
        self.replayed = 0  # answers that say they were given before

    def hear(self, order, occurrence):
        """An acknowledgement; the second one under a key must be the first one again."""
        now = time.time_ns() // 1000
        known = self.acknowledged.setdefault(order.mark, (occurrence, now))
        if known[0] != occurrence:
            self.wrong.append(f"{order.mark}: acknowledged as {known[0]} and then as {occurrence}")


class Senders:
    """Senders over kept-alive connections, each with at most one request under way."""

    def __init__(self, scene, told, ports, rng, pause=0.03, patience=15.0):
        self.key, self.told, self.ports = scene.key, told, list(ports)
        self.pause = pause  # seconds between two orders of one sender, on average
        self.patience = patience  # seconds until an answer is given up
        self.over = False
        self.waiting = [[] for _ in range(SENDERS)]  # orders not acknowledged yet, the oldest first
        self.later = [[] for _ in range(SENDERS)]  # payments that come when the wait is almost over
        self.turns = [0] * SENDERS
        self.heard = [0.0] * SENDERS  # when each was last acknowledged, by the monotonic clock
        self.rngs = [random.Random(rng.random()) for _ in range(SENDERS)]

    async def run(self, end, events=0):
        """Lets them send until `end` has come to its own end and so many events are acknowledged."""
        self.over = False

        async def until():
            try:
                await end()
                patience = time.monotonic() + ENOUGH_WITHIN  # a busy machine takes longer to prove something
                while len(self.told.acknowledged) < events and time.monotonic() < patience:
                    await asyncio.sleep(0.1)
            finally:
                self.over = True

        await asyncio.gather(until(), *(self._sender(number) for number in range(SENDERS)))

    async def finish(self):
        """Sends what was never answered once more, until it is."""
        self.over = True
        await asyncio.gather(*(self._sender(number, finishing=True) for number in range(SENDERS)))

    async def _sender(self, number, finishing=False):
        place = number
        while not self.over or (finishing and self.waiting[number]):
            reader = writer = None
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[place % len(self.ports)])
                while not self.over or (finishing and self.waiting[number]):
                    await self._turn(number, reader, writer)
            except Cut:
                self.told.cut += 1
                place += 1
            except OSError:  # nobody listens; perhaps elsewhere, perhaps soon
                place += 1
                await asyncio.sleep(0.05)
            finally:
                if writer:
                    writer.close()

    async def _turn(self, number, reader, writer):
        """The oldest order that was not acknowledged yet, or the next one."""
        if not self.waiting[number]:
            self.waiting[number] += self._next(number)
        order = self.waiting[number][0]
        self.told.sent[order.mark] = order
        if await self._send(order, reader, writer):
            self.heard[number] = time.monotonic()
            self.waiting[number].pop(0)
            rng = self.rngs[number]
            if rng.random() < 0.05:  # a client that lost the answer asks again
                await self._send(order, reader, writer)
            if not self.over:
                await asyncio.sleep(rng.uniform(0, 2 * self.pause))
        else:
            await asyncio.sleep(0.1)

    def _next(self, number):
        """Two orders a contact; a third of the contacts pays at once, a third about when the time is up."""
        rng, later = self.rngs[number], self.later[number]
        if later and later[0][0] <= time.monotonic():
            return [later.pop(0)[1]]
        turn = self.turns[number]
        self.turns[number] += 1
        contact = f"c{number}-{turn // 2}"
        orders = [Order(PLACED, f"{number}-{turn}", contact, rng.randrange(2 * HIGH))]
        payment = Order(PAID, f"{number}-{turn}-paid", contact, 0)
        if turn % 6 == 1:
            orders.append(payment)
        elif turn % 6 == 3:
            later.append((time.monotonic() + rng.uniform(1.8, 2.4), payment))
        return orders

    async def _send(self, order, reader, writer):
        """One request; True when it was acknowledged, False when it was put off."""
        try:
            request = ask(self.key, "/events/send", order.mark, order.body())
            answered = exchange(reader, writer, request)
            status, head, body = await asyncio.wait_for(answered, self.patience)
        except asyncio.TimeoutError:
            raise Cut(False) from None
        if status == 503:
            self.told.refused += 1
            return False
        if status != 202:
            self.told.wrong.append(f"{order.mark}: {status} {body[:200]!r}")
            return True
        self.told.replayed += "idempotent-replayed: true" in head.lower()
        self.told.hear(order, json.loads(body)["id"])
        return True


def ask(key, path, mark, body):
    """A POST under an Idempotency-Key, as bytes."""
    body = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nIdempotency-Key: {mark}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def place_many(scene, told, server, tag, count):
    """Orders by the thousand, each request all or nothing: work for the workers."""
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        orders = [Order(PLACED, f"{tag}-{n}", f"{tag}-{n}", n % (2 * HIGH)) for n in numbers]
        told.sent |= {order.mark: order for order in orders}
        headers = {"Authorization": f"Bearer {scene.key}", "Idempotency-Key": f"{tag}-{start}"}
        status, _, body = server.ask("POST", "/events/send/batch", [order.body() for order in orders], headers)
        assert status == 202, f"POST /events/send/batch: {status} {body[:200]!r}"
        for order, item in zip(orders, json.loads(body)["data"], strict=True):
            told.hear(order, item["id"])
