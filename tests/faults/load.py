"""Concurrent writers with a memory, and the check of a store against what they remember.

Every request that goes out is noted before it is sent, every acknowledgement when it
has arrived. Afterwards the store must hold everything acknowledged, whole and once,
and nothing that nobody asked for. A request without an answer may have been carried
out or not; twice or in part it may not.
"""

import asyncio
import base64
import hashlib
import json
import re
from collections import Counter
from urllib.parse import quote

WRITERS = 32
REDIRECT = "http://127.0.0.1:{port}/callback"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class History:
    """What one round of writers sent and what the server said to it."""

    def __init__(self, tag):
        self.tag = tag  # letters and digits: it begins every name and state of this round
        self.sent_events = set()  # names
        self.sent_requests = {}  # code challenge -> (redirect_uri, state)
        self.events = {}  # acknowledged: id -> name
        self.requests = {}  # acknowledged: id -> code challenge
        self.wrong = []  # answers that nothing explains
        self.unanswered = 0  # sent, and then the connection went away
        self.partial = 0  # of these: in the middle of the answer

    def acknowledged(self):
        return len(self.events) + len(self.requests)


class Cut(Exception):
    """The connection ended; `partial` when in the middle of an answer."""

    def __init__(self, partial):
        super().__init__()
        self.partial = partial


async def exchange(reader, writer, request):
    """Sends one request over a kept-alive connection; returns (status, header text, body)."""
    try:
        writer.write(request)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as problem:
        raise Cut(bool(problem.partial)) from None
    except OSError:
        raise Cut(False) from None
    try:
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
        body = await reader.readexactly(int(length.group(1))) if length else b""
    except (asyncio.IncompleteReadError, OSError):
        raise Cut(True) from None
    return int(head.split(b" ", 2)[1]), head.decode("latin-1"), body


class Load:
    """32 writers against one server: four events for every authorization request."""

    def __init__(self, port, key, client_id):
        self.port = port
        self.key = key
        self.client_id = client_id

    async def run(self, history, end):
        """Runs the writers until each of them has lost its connection, which `end` brings about."""
        await asyncio.gather(end(), *(self._writer(history, number) for number in range(WRITERS)))

    async def _writer(self, history, number):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return
        turn = 0
        try:
            while True:
                turn += 1
                mark = f"{history.tag}.{number}.{turn}"
                send = self._authorize if (turn + number) % 5 == 0 else self._create
                await send(history, reader, writer, mark)
        except Cut as cut:
            history.unanswered += 1
            history.partial += cut.partial
        finally:
            writer.close()

    async def _create(self, history, reader, writer, mark):
        name = f"{mark} crème brûlée"  # not ASCII: a name must survive as it was sent
        body = json.dumps({"name": name, "schema": {"plan": "string"}}, ensure_ascii=False).encode()
        history.sent_events.add(name)
        head = (
            "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self.key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        status, _, body = await exchange(reader, writer, head.encode() + body)
        if status != 201:
            history.wrong.append(f"{mark}: {status} {body[:200]!r}")
            return
        event = json.loads(body)["id"]
        if event in history.events or not UUID.fullmatch(event):
            history.wrong.append(f"{mark}: the id {event} is malformed or was given before")
        history.events[event] = name

    async def _authorize(self, history, reader, writer, mark):
        digest = hashlib.sha256(mark.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        redirect = REDIRECT.format(port=1024 + int.from_bytes(digest[:2], "big") % 60000)
        history.sent_requests[challenge] = (redirect, mark)
        path = (
            f"/oauth/authorize?client_id={self.client_id}&response_type=code&redirect_uri={quote(redirect, safe='')}"
            f"&state={mark}&code_challenge={challenge}&code_challenge_method=S256"
        )
        status, head, body = await exchange(
            reader, writer, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        )
        location = re.search(r"\r\nlocation: *(\S+)", head, re.I)
        request = location and re.search(rf"/oauth/authorize/({UUID.pattern})$", location.group(1))
        if status != 302 or not request:
            history.wrong.append(f"{mark}: {status} {location and location.group(1)} {body[:200]!r}")
            return
        if request.group(1) in history.requests:
            history.wrong.append(f"{mark}: the request id {request.group(1)} was given before")
        history.requests[request.group(1)] = challenge


def verify(store, history, client_id):
    """Compares the store with one history; returns a list of complaints, empty when all is well."""
    problems = list(history.wrong)

    stored = store.query(f"SELECT id, name, schema FROM events WHERE name LIKE '{history.tag}.%'")
    names = dict((row[0], row[1]) for row in stored)
    for event, name in history.events.items():
        if event not in names:
            problems.append(f"lost: event {event} ({name})")
        elif names[event] != name:
            problems.append(f"changed: event {event} is {names[event]!r}, was {name!r}")
    for event, name, schema in stored:
        if name not in history.sent_events:
            problems.append(f"invented: event {event} is {name!r}")
        if not schema or json.loads(schema) != {"plan": "string"}:
            problems.append(f"half-stored: event {event} has the schema {schema!r}")
    problems += [f"twice: event {name!r}" for name, n in Counter(names.values()).items() if n > 1]

    rows = store.query(
        "SELECT id, client_id, redirect_uri, state, scopes, code_challenge, created_at, expires_at"
        f" FROM authorization_requests WHERE state LIKE '{history.tag}.%'"
    )
    found = {row[0]: row for row in rows}
    problems += [f"lost: authorization request {request}" for request in history.requests if request not in found]
    for request, client, redirect, state, scopes, challenge, created, expires in rows:
        if not all((client, redirect, state, scopes, challenge, created, expires)):
            problems.append(f"half-stored: authorization request {found[request]}")
        elif client != client_id or history.sent_requests.get(challenge) != (redirect, state):
            problems.append(f"changed: authorization request {found[request]}")
        elif history.requests.get(request, challenge) != challenge:
            problems.append(f"mixed up: authorization request {request} answers for another one")
    challenges = Counter(row[5] for row in rows)
    problems += [f"twice: authorization request {c}" for c, n in challenges.items() if n > 1]
    return problems


def stored_unanswered(store, history):
    """How many events are in the store although their writer never got an answer."""
    return len(store.query(f"SELECT id FROM events WHERE name LIKE '{history.tag}.%'")) - len(history.events)
