#!/usr/bin/env python3
"""The listener for what comes back, by clients that others wrote and by strangers who mean no good.

    tests/mail/inbound.py [--engine sqlite|postgres] [--idle N]

Mails leave for a sink, and swaks brings reports and complaints on them to their return paths and to the
address for complaints; what it brings that is none must change nothing. Then messages in which another
could hide, and N connections that say nothing beside reports that must all be taken. Prints one line an
engine; exits 1 if a promise was broken. PostgreSQL is the one that $POSTHORN_TEST_POSTGRES points to.
"""

import argparse
import json
import resource
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from server import ENGINES, Server, free_port

SOON = 60.0  # seconds until what was queued is delivered
LOOPS = "fbl@mail.example"
ENDS = [b"\n.\n", b"\n.\r\n", b"\r.\r", b"\r.\r\n", b"\r\n.\n", b"\r\n.\r", b"\r\r\n.\r\r\n"]


def report(status="5.1.1", said="550 5.1.1 no such user"):
    return (
        "From: MAILER-DAEMON@mx.example.com\r\nSubject: Undelivered\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\r\n\r\n'
        "--b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n"
        "Reporting-MTA: dns; mx.example.com\r\n\r\nFinal-Recipient: rfc822; bob@example.com\r\nAction: failed\r\n"
        f"Status: {status}\r\nDiagnostic-Code: smtp; {said}\r\n\r\n--b--\r\n"
    )


def complaint(path):
    return (
        "From: <loop@isp.example>\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/report; report-type=feedback-report; boundary="b"\r\n\r\n'
        "--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nUser-Agent: Loop/1\r\n"
        f"Version: 1\r\nOriginal-Mail-From: <{path}>\r\n\r\n--b--\r\n"
    )


AUTO_REPLY = "From: bob@example.com\r\nAuto-Submitted: auto-replied\r\nSubject: Away\r\n\r\nStatus: 5.1.1\r\n"


class Sink(socketserver.ThreadingTCPServer):
    """A mail server that keeps where bounces of what it is given go, by recipient."""

    daemon_threads = True

    def __init__(self):
        self.paths = {}
        super().__init__(("127.0.0.1", 0), Dialogue)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Dialogue(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"220 sink\r\n")
        path = None
        while line := self.rfile.readline():
            command = line[:4].upper()
            address = line.split(b"<")[-1].split(b">")[0].decode()
            if command == b"MAIL":
                path = address
            if command == b"RCPT":
                to = address
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                for line in self.rfile:
                    if line == b".\r\n":
                        break
                self.server.paths[to] = path
            self.wfile.write({b"QUIT": b"221 bye\r\n"}.get(command, b"250 ok\r\n"))


class Hall:
    """A server that sends to a sink, and hears what comes back."""

    def __init__(self, engine):
        self.sink, self.store, self.port = Sink(), ENGINES[engine](), free_port()
        self.server = Server(
            self.store,
            *("--inbound-listen", f"127.0.0.1:{self.port}", "--complaints-to", LOOPS, "--senders", "any"),
            *("--smtp-url", f"smtp://127.0.0.1:{self.sink.server_address[1]}", "--log", "warn"),
        )
        self.server.start().wait()
        self.key = self.server.create_key()
        self.ask("POST", "/domains", {"name": "sender.example"})
        self.store.run("UPDATE dkim_keys SET seen_at = 0")  # as if its records had been seen

    def ask(self, method, path, body=None):
        # Making keys takes long on a busy machine.
        status, _, answer = self.server.ask(method, path, body, {"Authorization": f"Bearer {self.key}"}, timeout=120)
        assert 200 <= status < 300, f"{method} {path}: {status} {answer[:500]!r}"
        return json.loads(answer)

    def send(self, to):
        """Sends a mail; tells its id and its return path."""
        id = self.ask("POST", "/emails", {"from": "a@sender.example", "to": to, "subject": "x", "text": "x"})["id"]
        self.until(id, "delivered")
        path = self.sink.paths[to]
        assert path.endswith("@send.sender.example"), path
        return id, path

    def event(self, id):
        return self.ask("GET", f"/emails/{id}")["last_event"]

    def until(self, id, event):
        began = time.monotonic()
        while (found := self.event(id)) != event:
            assert time.monotonic() - began < SOON, f"{id} is {found}, not {event}"
            time.sleep(0.05)

    def visit(self):
        talk = Talk(socket.create_connection(("127.0.0.1", self.port), timeout=30))
        assert talk.reply().startswith(b"220 ")
        talk.say(b"EHLO mx.example.com")
        return talk

    def bring(self, path, message):
        """A report in one dialogue; the reply to its message."""
        talk = self.visit()
        for line, code in ((b"MAIL FROM:<>", b"250"), (f"RCPT TO:<{path}>".encode(), b"250"), (b"DATA", b"354")):
            reply = talk.say(line)
            assert reply.startswith(code), f"{line}: {reply}"
        return talk.write(message + b".\r\n")

    def close(self):
        if self.server.process.poll() is None:
            self.server.stop()
        self.sink.shutdown()
        self.store.remove()


class Talk:
    def __init__(self, connection):
        self.connection, self.file = connection, connection.makefile("rb")

    def reply(self):
        lines = []
        while line := self.file.readline():
            lines.append(line)
            if line[3:4] != b"-":
                break
        return b"".join(lines)

    def say(self, line):
        return self.write(line + b"\r\n")

    def write(self, data):
        self.connection.sendall(data)
        return self.reply()


def by_swaks(hall):
    def run(to, message, sender="<>"):
        file = Path(hall.store.dir) / "message"
        file.write_bytes(message.encode())
        command = ["swaks", "--server", "127.0.0.1", "--port", str(hall.port), "--from", sender, "--to", to]
        command += ["--data", f"@{file}", "--timeout", "30"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def taken(ran):
        assert ran.returncode == 0 and "250 2.0.0 Read." in ran.stdout, f"{ran.returncode}\n{ran.stdout}{ran.stderr}"

    def refused(ran, reply):
        assert ran.returncode != 0 and reply in ran.stdout, f"{ran.returncode}\n{ran.stdout}{ran.stderr}"

    bounced, path = hall.send("bob@example.com")
    refused(run(path, AUTO_REPLY), "554 5.6.0")
    refused(run(path, AUTO_REPLY, "bob@example.com"), "554 5.6.0")
    refused(run(path, report(), "bob@example.com"), "554 5.7.1")
    refused(run("postmaster@mail.example", report()), "550 5.7.1")
    refused(run("someone@elsewhere.example", AUTO_REPLY, "bob@example.com"), "550 5.7.1")
    refused(run(LOOPS, report()), "554 5.6.0")
    taken(run(LOOPS, complaint("bob@example.com"), "loop@isp.example"))
    assert hall.event(bounced) == "delivered", hall.event(bounced)
    taken(run(path, report()))
    assert hall.event(bounced) == "bounced", hall.event(bounced)
    for number, to in enumerate(("path", "loops")):
        id, path = hall.send(f"{to}@example.com")
        taken(run(LOOPS if number else path, complaint(path), "loop@isp.example"))
        assert hall.event(id) == "complained", hall.event(id)
    return 10


def smuggled(hall):
    """Another message within a message: it is neither taken nor does it take the first one's place."""
    victim, its_path = hall.send("victim@example.com")
    id, path = hall.send("ann@example.com")
    hidden = f"MAIL FROM:<>\r\nRCPT TO:<{its_path}>\r\nDATA\r\n{report()}".encode()
    for end in ENDS:
        reply = hall.bring(path, report().encode().replace(b"Sorry.\r\n", b"Sorry." + end + hidden))
        assert reply.startswith(b"554 5.6.0 "), f"{end}: {reply}"
    assert {hall.event(victim), hall.event(id)} == {"delivered"}
    return len(ENDS)


def beside_idle(hall, count):
    """Connections that say nothing give way: reports, and requests, are served all the same. Returns the slowest."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(count, hard - 200) if hard != resource.RLIM_INFINITY else count
    mails = [hall.send(f"idle-{number}@example.com") for number in range(20)]
    idle, slowest = [], 0.0
    try:
        for number in range(count):
            one = socket.socket()
            one.bind((f"127.0.{1 + number // 200 % 200}.{1 + number % 200}", 0))
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", hall.port))
            idle.append(one)
            if number % 200 == 199:
                time.sleep(0.02)  # the queue of connections that nobody has accepted yet is short
        for id, path in mails:
            began = time.monotonic()
            reply = hall.bring(path, report().encode())
            slowest = max(slowest, time.monotonic() - began)
            assert reply.startswith(b"250 "), reply
            assert hall.event(id) == "bounced"
    finally:
        for one in idle:
            one.close()
    return count, slowest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--idle", type=int, default=2000)
    options = parser.parse_args()
    for engine in options.engine or ENGINES:
        hall, began = Hall(engine), time.monotonic()
        try:
            brought, hidden = by_swaks(hall), smuggled(hall)
            idle, slowest = beside_idle(hall, options.idle)
        except AssertionError:
            print(hall.server.tail(), file=sys.stderr)
            raise
        finally:
            hall.close()
        print(
            f"{engine}: swaks brought {brought} messages, {hidden} that hid another were refused, beside {idle} idle"
            f" connections the slowest of 20 reports took {slowest:.2f} s ({time.monotonic() - began:.0f} s in all)"
        )


if __name__ == "__main__":
    main()
