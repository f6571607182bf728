#!/usr/bin/env python3
"""What requests that are made to hurt cost: memory of the server, and time of the others.

    tests/faults/hostile.py [--rounds 1] [--engine sqlite|postgres] [--only WORD]

Every request goes to a real server whose peak of memory is noted before and after: one
alone may take less than 32 MiB, and a hundred at once of the worst, or of files that are
just too large for memory, or twenty files of 50 MB, less than 256 MiB. So does a mail of
40 MB, until it is captured, or signed and taken by a relay. Meanwhile somebody else asks
for an event over and over, by turns by a connection that he keeps and by a new one:
beside requests that are refused, the 99th percentile of what he waits is less than twice
what he waits while the same bytes go, from the same client, to a program that only
swallows them, or less than 10 ms. The two take turns up to five times; the median is held
against the worst that the machine does by itself. (What is accepted is written to the
disk, which he has to share.) The same holds beside runs of an automation whose rules look
through as much as a turn may: against twice what he waits beside as many runs, with as
many steps, whose rules find nothing at once. Nor may runs take more memory that have long
histories or large payloads and are woken at once. PostgreSQL is $POSTHORN_TEST_POSTGRES.
Memory is read from /proc, so this runs on Linux.
"""

import argparse
import json
import multiprocessing
import socket
import statistics
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urljoin, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import person
from server import ENGINES, Server

MIB = 1 << 20
ONE, MANY = 32 * MIB, 256 * MIB
AT_ONCE = 100
# A turn of Linux' scheduler is about 3 ms; on two cores that client, server and bystander
# share, waiting for three of them in one of a hundred requests tells nothing of the server.
FLOOR = 0.010
MEASUREMENTS = 5  # at most: what the server does it does every time, what the machine does it does now and then
BOUNDARY = "edge"
PATIENCE = 120
BOMBS = "path bombs in rules"
HISTORIES = "long histories"
PAYLOADS = "large payloads"
DEEP_PATH = "event." + ".".join(["a"] * 38)  # at each object all that is left of it is tried, then less and less
RUNS, CONDITIONS, MOST_CONDITIONS = 100, 10, 148
MOST_VALUES = 23_000  # that an automation may hold in its rules


class Request:
    """A request whose body is too large to hold: blocks, each with how often it comes."""

    def __init__(self, name, path, blocks, allowed, kind="application/json", key=None, more=""):
        self.name, self.path, self.allowed, self.kind, self.key, self.more = name, path, allowed, kind, key, more
        self.blocks = [(text.encode() if isinstance(text, str) else text, count) for text, count in blocks]
        self.size = sum(len(text) * count for text, count in self.blocks)

    def head(self, token):
        key = f"Idempotency-Key: {self.key}\r\n" if self.key else ""
        return (
            f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{key}"
            f"Content-Type: {self.kind}\r\nContent-Length: {self.size}\r\n{self.more}Connection: close\r\n\r\n"
        ).encode()

    def pieces(self):
        for text, count in self.blocks:
            at_once = max(1, (64 << 10) // len(text))
            whole, rest = divmod(count, at_once)
            many = text * at_once
            for _ in range(whole):
                yield many
            yield text * rest

    def send(self, port, token):
        """The status of the answer; None where the connection ended without one."""
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as link:
            try:
                link.sendall(self.head(token))
                for piece in self.pieces():
                    link.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all of it was sent
            try:
                answer = b""
                while b"\r\n" not in answer and (more := link.recv(4096)):
                    answer += more
                while link.recv(65536):
                    pass
            except ConnectionResetError:
                pass
            return int(answer.split(b" ", 2)[1]) if answer else None


def part(name, blocks, file=None):
    """A field of a form."""
    called = f"; filename=\"{file}\"" if file else ""
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{called}\r\n\r\n"
    return [(head, 1), *blocks, ("\r\n", 1)]


def form(name, *parts, allowed, path="/contacts/imports", more=""):
    blocks = [block for one in parts for block in one] + [(f"--{BOUNDARY}--\r\n", 1)]
    return Request(name, path, blocks, allowed, f"multipart/form-data; boundary={BOUNDARY}", more=more)


def uploads():
    """Files and forms. A server may hang up on what it refuses early (None)."""
    small = part("file", [("email\n", 1)])
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"a\"\r\n"
    return [
        form("a header of 50 MB of commas", part("file", [(",", 50_000_000)]), allowed={422}),
        form("50 MB of blank lines", part("file", [("\n", 50_000_000)]), allowed={422}),
        form("50 MB of blank lines behind a header", part("file", [("email\n", 1), ("\n", 50_000_000)]), allowed={201}),
        form("rows of 1 MB of commas", part("file", [("email\n", 1), ("," * 999_999 + "\n", 50)]), allowed={201}),
        form("a quote that is never closed", part("file", [("email\n\"", 1), ("x\n", 25_000_000)]), allowed={201}),
        form("a column_map of 12 MB", small, part("column_map", [("{", 1), ('"a":[0],', 1_500_000), ('"b":0}', 1)]), allowed={422}),
        form("a column_map of 64 KB", small, part("column_map", [("[", 1), ("[0],", 16_000), ("0]", 1)]), allowed={422}),
        form("two million fields", [(head + "\r\n\r\n", 600_000)], allowed={400}),
        form("a field's head of 50 MB", [(head, 1), ("X: y\r\n", 8_300_000)], allowed={400}),
        form("50 MB before the first boundary", [("-", 50_000_000)], allowed={400}),
        form("50 MB of spaces behind a boundary", [(f"--{BOUNDARY}", 1), (" ", 50_000_000)], allowed={400}),
    ]


def batches():
    """Many events in one request of at most 8 MiB."""
    event = '{"event":"known","email":"a@example.com","payload":%s},'
    nested = event % ('{"a":[' + "[0]," * 2040 + "0]}")
    twice = nested.replace('"payload":', '"payload":0,"payload":')
    large = event % ('{"a":"' + "x" * 250_000 + '"}')
    named = '{"event":"%s","email":"a@example.com","payload":{"a":"%s"}},' % (LONG_NAME, "x" * 4000)
    last = event[:-1] % "{}"

    def batch(name, *blocks, allowed, key=None):
        return Request(name, "/events/send/batch", [("[", 1), *blocks, ("]", 1)], allowed, key=key)

    return [
        batch("8 MB of `[[0]],`", ("[[0]],", 1_390_000), ("0", 1), allowed={422}),
        batch("8 MB of `[`", ("[", 8_300_000), allowed={400}),
        batch("8 MB of `{\"a\":`", ('{"a":', 1_600_000), allowed={400}),
        batch("1000 events of 2000 arrays", (nested, 999), (last, 1), allowed={202}, key="nested"),
        batch("1000 events that say their payload twice", (twice, 998), (last, 1), allowed={202}, key="twice"),
        batch("32 events of 250 KB", (large, 32), (last, 1), allowed={202}, key="large"),
        batch("1000 events with long names", (named, 990), (last, 1), allowed={202}, key="named"),
    ]


LONG_NAME = "ü" * 1024


def tokens():
    """What strangers may send: forms and JSON of at most 16 KiB."""
    kind = "application/x-www-form-urlencoded"
    names = "".join(f"{n:x}&" for n in range(3600))
    return [
        Request("3,600 parameters to /oauth/token", "/oauth/token", [(names, 1)], {400}, kind),
        Request("16 KiB of `[0],` to /oauth/register", "/oauth/register", [("[", 1), ("[0],", 4090), ("0]", 1)], {400}),
    ]


def bodies():
    """Bodies of 1 MiB, deep and wide, and what is just allowed."""
    full = '{"event":"known","email":"a@example.com","payload":{"a":[' + '{"":0},' * 12_000 + "0]}}"
    rows = []
    for path in ("/events", "/contacts", "/events/send", "/automations"):
        for name, blocks, allowed in [
            ("`[`", [("[", MIB - 1)], {400, 422}),
            ("`{\"a\":`", [('{"a":', MIB // 5)], {400, 422}),
            ("`0,`", [("[", 1), ("0,", MIB // 2 - 2), ("0]", 1)], {422}),
            ("`[0],`", [("[", 1), ("[0],", MIB // 4 - 2), ("0]", 1)], {422}),
            ("one long string", [('{"name":"', 1), ("x", MIB - 20), ('"}', 1)], {422}),
            ("escapes", [('{"name":"', 1), ("\\u00e4", MIB // 6 - 4), ('"}', 1)], {422}),
        ]:
            rows.append(Request(f"1 MiB of {name} to {path}", path, blocks, allowed))
    rows.append(Request("24,000 values", "/events/send", [(full, 1)], {202}, key="full"))
    return rows


def elsewhere():
    """One large request to each of the other paths that take much."""
    suppressions = [("email\n", 1), ("x\n", 4_190_000)]
    mail = '{"from":"a@acme.example","to":"bob@example.com","subject":"Large","html":"%s"},' % ("<p>Hello</p>" * 6800)
    template = [('{"name":"T","html":"', 1), ("{{{A|b}}}", 58_000), ('"}', 1)]
    variables = [('{"name":"T","html":"', 1), ("{{A}}", 33_000), ('"}', 1)]
    rule = '{"type":"rule","field":"contact.first_name","operator":"eq","value":"%s"},' % ("x" * 140)
    rules = [('{"filter":{"type":"or","rules":[', 1), (rule, 4700), (rule[:-1] + "]}}", 1)]
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send_event","arguments":{"payload":['
    values = [(call, 1), ("[0],", 12_000), ('"', 1), ("x", 200_000), ('"]}}}', 1)]
    of_tools = "Accept: application/json, text/event-stream\r\n"
    return [
        Request("8 MB of short rows to /suppressions/import", "/suppressions/import", suppressions, {201}, "text/csv"),
        Request("100 mails of 80 KB to /emails/batch", "/emails/batch", [("[", 1), (mail, 99), (mail[:-1] + "]", 1)], {200}),
        Request("512 KB of variables to /templates", "/templates", template, {422}),
        Request("33,000 variables to /templates", "/templates", variables, {201}),
        Request("4,700 rules to /segments/preview", "/segments/preview", rules, {422}),
        Request("24,000 values to /mcp", "/mcp", values, {200, 422}, more=of_tools),
    ]


def sent_by_page(attack):
    """A mail with nearly as large a file as it may have, by the form of the dashboard."""
    browser, base = person.Browser(), attack.server.base
    attack.server.create_user("ada@example.com", "a few plain words")
    login = person.visit(browser, f"{base}/dashboard/login").form(field="password")
    typed = dict(login["fields"]) | {"email": "ada@example.com", "password": "a few plain words"}
    assert browser.open(urljoin(base, login["action"]), typed)[0] == 303, "logging in"
    page = urljoin(base, browser.open(f"{base}/dashboard/emails/new")[1])
    fields = dict(person.visit(browser, page).form(field="subject")["fields"])
    fields |= {"from": "a@acme.example", "to": "bob@example.com", "subject": "Large", "text": "Hello"}
    file = part("attachments", [("AAECAwQFBgcICQoL", 28_000_000 // 16)], file="a.bin")
    typed = [part(name, [(value, 1)]) for name, value in fields.items() if value]
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    more = f"Cookie: {cookies}\r\nSec-Fetch-Site: same-origin\r\n"
    return form("a file of 28 MB by a page", *typed, file, allowed={303}, path=urlsplit(page).path, more=more)


def large_mail():
    """A mail of just 40 MB: a body, and a file in base64."""
    rest = (40 << 20) - len(SMALL_BODY)
    head = '{"from":"a@acme.example","to":"bob@example.com","subject":"Large","html":"%s","attachments":[' % SMALL_BODY
    blocks = [(head + '{"filename":"a.bin","content":"', 1), ("AAECAwQFBgcICQoL", rest // 16), ('"}]}', 1)]
    return Request("a mail of 40 MB", "/emails", blocks, {200})


SMALL_BODY = "<p>Hello</p>"


class Relay:
    """A mail server that takes everything and keeps nothing but its size."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sizes, self.signed = [], 0
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            threading.Thread(target=self.converse, args=(self.listener.accept()[0],), daemon=True).start()

    def converse(self, link):
        with link, link.makefile("rb") as lines:
            link.sendall(b"220 relay\r\n")
            while line := lines.readline():
                if line.upper().startswith(b"DATA"):
                    link.sendall(b"354 go on\r\n")
                    self.sizes.append(self.read(lines))
                extended = line.upper().startswith(b"EHLO")
                link.sendall(b"250-relay\r\n250-SIZE 100000000\r\n250 8BITMIME\r\n" if extended else b"250 ok\r\n")

    def read(self, lines):
        size, end = 0, b""
        while end[-5:] != b"\r\n.\r\n":
            block = lines.read1(1 << 18)
            if not block:
                return 0
            self.signed += size == 0 and b"DKIM-Signature" in block
            size, end = size + len(block), end[-4:] + block[-5:]
        return size


def large_mails(engine, only):
    """The memory that one mail of 40 MB takes from its acceptance to its end."""
    relay = Relay()
    ways = {
        "a mail of 40 MB, captured": (),
        "a mail of 40 MB, signed and relayed": ("--smtp-url", f"smtp://127.0.0.1:{relay.port}", "--senders", "any"),
    }
    problems = []
    for name, extra in ways.items():
        if only not in name:
            continue
        attack = Attack(engine, *extra)
        try:
            attack.ask("POST", "/domains", {"name": "acme.example"}, 201)
            attack.store.run("UPDATE dkim_keys SET seen_at = 0")  # as if DNS had them
            attack.measure(name, ONE, lambda: deliver(attack))
        except AssertionError as problem:
            attack.problems.append(f"{name}: {problem}")
        finally:
            attack.end()
        problems += attack.problems
    if only in "signed and relayed" and (len(relay.sizes) != 1 or relay.sizes[0] < 40 << 20 or not relay.signed):
        problems.append(f"the relay got {relay.sizes} bytes, {relay.signed} of them signed")
    return problems


def deliver(attack):
    status = large_mail().send(attack.server.port, attack.token)
    assert status == 200, f"answered {status}"
    until = time.monotonic() + PATIENCE
    while (told := attack.ask("GET", "/emails", None, 200)["data"][0]["last_event"]) != "delivered":
        assert time.monotonic() < until and told in ("queued", "sent"), f"it is {told}"
        time.sleep(0.1)


def rows_by_kind(engine):
    """Every row on SQLite; on PostgreSQL those that come as far as the store."""
    rows = {"form": uploads(), "batch": batches()}
    return rows if engine == "postgres" else rows | {"body": bodies(), "stranger": tokens()}


class Memory:
    """What the server's process has at its peak beyond what it had."""

    def __init__(self, server):
        self.proc = Path(f"/proc/{server.process.pid}")
        (self.proc / "clear_refs").write_text("5")  # the peak begins anew
        self.before = self.read("VmRSS")

    def read(self, name):
        lines = (self.proc / "status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

    def grown(self):
        return self.read("VmHWM") - self.before


class Attack:
    """One server, and requests at it."""

    def __init__(self, engine, *extra):
        self.store = ENGINES[engine]()
        self.server = Server(self.store, *extra)
        self.server.start().wait()
        self.token = self.server.create_key()
        for name in ("known", LONG_NAME):
            self.event = self.ask("POST", "/events", {"name": name}, 201)["id"]
        self.problems = []

    def ask(self, method, path, body, wanted):
        status, _, answer = self.server.ask(method, path, body, {"Authorization": f"Bearer {self.token}"})
        assert status == wanted, f"{method} {path}: {status} {answer[:200]!r}"
        return json.loads(answer)

    def end(self):
        if self.server.process.poll() is None:
            self.server.kill()
        self.store.remove()

    def measure(self, name, limit, act):
        # What earlier requests have left in the allocator would hide what this one takes.
        self.server.stop()
        self.server.start().wait()
        # Connections, statements and the description that every working server has are nobody's cost.
        self.ask("GET", "/openapi.json", None, 200)
        self.ask("POST", "/events/send/batch", [{"event": "known", "email": "a@example.com"}], 202)
        self.ask("GET", f"/events/{self.event}", None, 200)
        memory = Memory(self.server)
        began = time.monotonic()
        act()
        grown, took = memory.grown(), time.monotonic() - began
        if grown >= limit:
            self.problems.append(f"{name}: {grown / MIB:.0f} MiB")
        print(f"  {grown / MIB:7.1f} MiB  {took:6.2f} s  {name}", flush=True)
        return grown

    def one(self, request):
        """A request alone, and what it leaves to be done in the background."""

        def act():
            status = request.send(self.server.port, self.token)
            if status not in request.allowed and not (status is None and max(request.allowed) >= 400):
                self.problems.append(f"{request.name}: answered {status}")
            if status == 201:
                self.imported()

        return self.measure(request.name, ONE, act)

    def imported(self):
        """Waits until no import is under way any more."""
        until = time.monotonic() + PATIENCE
        for status in ("queued", "in_progress"):
            while self.ask("GET", f"/contacts/imports?status={status}", None, 200)["data"]:
                assert time.monotonic() < until, "an import does not end"
                time.sleep(0.05)

    def many(self, name, requests):
        """Requests at once: their memory, and what somebody else waits meanwhile."""
        # What is accepted goes to the disk, which everybody shares: it is only told.
        is_refused = all(min(request.allowed) >= 400 for request in requests)
        answers, quiet, loud = [], [], []
        for _ in range(MEASUREMENTS):
            quiet.append(with_bystander(self, lambda: to_nobody(requests)))
            act = lambda: loud.append(with_bystander(self, lambda: volley(requests, self.server.port, self.token, answers)))
            self.measure(name, MANY, act)
            if not is_refused or not held_up(quiet, loud):
                break
        for request, status in answers:
            # Who waits too long for a turn is told to come back.
            if status not in request.allowed | {503} and not (status is None and max(request.allowed) >= 400):
                self.problems.append(f"{name}: answered {status}")
        put_off = sum(status == 503 for _, status in answers)
        print(f"           others' p99 {shown(loud)} ms, beside a sink {shown(quiet)} ms; {put_off} put off", flush=True)
        if is_refused and held_up(quiet, loud):
            self.problems.append(f"{name}: others wait {shown(loud)} ms, beside a sink {shown(quiet)} ms")

    def bombs(self):
        """Runs whose rules look through much, by turns with runs whose rules look at nothing."""
        quiet, loud = [], []
        automations = {name: self.listen(name, path) for name, path in (("calm", "event.none"), ("bomb", DEEP_PATH))}
        for _ in range(MEASUREMENTS):
            for (name, automation), waits in zip(automations.items(), (quiet, loud)):
                shown_as = f"{BOMBS}: {RUNS} runs" if name == "bomb" else f"{RUNS} runs whose rules find nothing"
                act = lambda: waits.append(with_bystander(self, lambda: self.run_through(name, automation)))
                self.measure(shown_as, MANY, act)
            if not held_up(quiet, loud):
                break
        print(f"           others' p99 {shown(loud)} ms, beside those that find nothing {shown(quiet)} ms", flush=True)
        if held_up(quiet, loud):
            self.problems.append(f"{BOMBS}: others wait {shown(loud)} ms, beside those that find nothing {shown(quiet)} ms")

    def histories(self):
        """Runs with as many comparisons behind them as there may be, which are all woken at once."""
        pause = {"key": "pause", "type": "delay", "config": {"duration": "2 seconds"}}
        automation = self.listen("long", "event.none", MOST_CONDITIONS, [pause])
        self.measure(f"{HISTORIES}: {RUNS} runs", MANY, lambda: self.run_through("long", automation))

    def payloads(self):
        """Runs that are all woken at once, whose payloads take fifty times as much when they are read."""
        pause = {"key": "pause", "type": "delay", "config": {"duration": "2 seconds"}}
        automation = self.listen("wide", "event.none", 1, [pause])
        payload = {"many": [{"a": 0}] * 7_500}
        self.measure(f"{PAYLOADS}: {RUNS} runs", MANY, lambda: self.run_through("wide", automation, payload))

    def listen(self, event, path, conditions=CONDITIONS, then=()):
        """An automation of conditions with as many rules as there may be about one path, and of what comes then."""
        rule = {"type": "rule", "field": path, "operator": "exists"}
        rules = [rule] * min(99, MOST_VALUES // conditions // (len(rule) + 1))
        asked = {"type": "condition", "config": {"type": "or", "rules": rules}}
        steps = [{"key": "s0", "type": "trigger", "config": {"event_name": event}}]
        steps += [asked | {"key": f"s{n}"} for n in range(1, conditions + 1)] + list(then)
        kinds = ["default"] + ["condition_not_met"] * conditions + ["default"] * len(then)
        links = [{"from": a["key"], "to": b["key"], "type": kind} for a, b, kind in zip(steps, steps[1:], kinds)]
        self.ask("POST", "/events", {"name": event}, 201)
        body = {"name": event, "status": "enabled", "steps": steps, "connections": links}
        return self.ask("POST", "/automations", body, 201)["id"]

    def run_through(self, event, automation, payload=None):
        """Starts runs, and waits until all have come to their end."""
        deep = {}
        for _ in range(DEEP_PATH.count(".") - 2):
            deep = {"a": deep}
        payload = payload or deep | {"text": "x" * 20_000}
        events = [{"event": event, "email": f"p{n}@example.com", "payload": payload} for n in range(RUNS)]
        self.ask("POST", "/events/send/batch", events, 202)
        until = time.monotonic() + PATIENCE
        while self.ask("GET", f"/automations/{automation}/runs?status=running&limit=1", None, 200)["data"]:
            assert time.monotonic() < until, "the runs do not end"
            time.sleep(0.1)
        ended = self.ask("GET", f"/automations/{automation}/runs?limit={RUNS}", None, 200)["data"]
        statuses = {run["status"] for run in ended}
        assert len(ended) == RUNS and statuses == {"completed"}, f"{len(ended)} runs are {statuses}"


def held_up(quiet, loud):
    """Whether somebody else waits for what the server does, and not for what the machine does by itself."""
    return statistics.median(loud) > max(2 * max(quiet), FLOOR)


def shown(waits):
    return " / ".join(f"{wait * 1000:.1f}" for wait in waits)


def volley(requests, port, token, answers):
    threads = [
        threading.Thread(target=lambda request=request: answers.append((request, request.send(port, token))))
        for request in requests
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def to_nobody(requests):
    """The same bytes from the same client to a program that swallows them."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    sink = multiprocessing.Process(target=swallow, args=(listener,), daemon=True)
    sink.start()
    volley(requests, listener.getsockname()[1], "x", [])
    sink.terminate()
    sink.join()
    listener.close()


def swallow(listener):
    def one(link):
        with link:
            head = b""
            while b"\r\n\r\n" not in head:
                head += link.recv(65536)
            head, _, rest = head.partition(b"\r\n\r\n")
            left = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(rest)
            while left > 0 and (more := link.recv(min(left, 1 << 18))):
                left -= len(more)
            link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    while True:
        threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()


def with_bystander(attack, act):
    """The 99th percentile of the seconds that somebody else waits for answers while something goes on."""
    mine, theirs = multiprocessing.Pipe()
    over = multiprocessing.Event()
    args = (attack.server.port, attack.token, attack.event, over, theirs)
    bystander = multiprocessing.Process(target=stand_by, args=args, daemon=True)
    bystander.start()
    began = time.monotonic()
    act()
    time.sleep(max(0.0, 2.0 - (time.monotonic() - began)))  # enough of them to speak of a percentile
    over.set()
    waited = mine.recv()
    bystander.join()
    if isinstance(waited, str):
        attack.problems.append(waited)
        return float("inf")
    return statistics.quantiles(waited, n=100)[98]


def stand_by(port, token, event, over, pipe):
    request = f"GET /events/{event} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    connect = lambda: socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    waited = []

    def ask(link):
        link.sendall(request)
        return link.recv(65536)

    with connect() as kept:
        while not over.is_set():
            began = time.monotonic()
            if len(waited) % 2:
                with connect() as link:
                    answer = ask(link)
            else:
                answer = ask(kept)
            waited.append(time.monotonic() - began)
            if not answer.startswith(b"HTTP/1.1 200"):
                pipe.send(f"somebody else was answered {answer[:40]!r}")
                return
            time.sleep(0.003)
    pipe.send(waited)


def hostile(engine, rounds, only):
    attack = Attack(engine)
    print(f"{engine}:", flush=True)
    try:
        wanted = lambda rows: [row for row in rows if only in row.name]
        worst = {}
        for kind, rows in rows_by_kind(engine).items():
            grown = [(attack.one(row), row) for row in wanted(rows)]
            worst[kind] = [row for _, row in sorted(grown, key=lambda pair: pair[0])]
        for row in wanted([*elsewhere(), sent_by_page(attack)]):
            attack.one(row)
        for _ in range(rounds):
            # Forms of 50 MB are played twenty at once, below: a hundred would be 5 GB for this machine.
            for kind in sorted(worst.keys() - {"form"}):
                refused = [row for row in worst[kind] if min(row.allowed) >= 400]
                for row in dict.fromkeys(worst[kind][-1:] + refused[-1:]):
                    attack.many(f"{AT_ONCE} times {row.name}", [row] * AT_ONCE)
            file = part("file", [("email\n", 1), ("x" * 900_000 + "\n", 55)])
            for count in (6, 20):
                if only in "files":
                    files = [form("a file of 50 MB", file, allowed={201})] * count
                    attack.many(f"{count} files of 50 MB", files)
            small = part("file", [("email\n", 1), ("x" * 30_000 + "\n", 10)])
            if only in "files":
                attack.many(f"{AT_ONCE} files of 300 KB", [form("a file of 300 KB", small, allowed={201})] * AT_ONCE)
            if only in BOMBS:
                attack.bombs()
            if only in HISTORIES:
                attack.histories()
            if only in PAYLOADS:
                attack.payloads()
        assert attack.server.process.poll() is None, "the server ended"
    except AssertionError as problem:
        attack.problems.append(str(problem))
    finally:
        attack.end()
    attack.problems += large_mails(engine, only)
    for problem in attack.problems:
        print(f"{engine}: FAILED: {problem}", flush=True)
    return not attack.problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--only", default="", help="requests whose name has this in it")
    options = parser.parse_args()
    done = [hostile(engine, options.rounds, options.only) for engine in options.engine or ENGINES]
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main()
