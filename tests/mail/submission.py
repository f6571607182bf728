#!/usr/bin/env python3
"""SMTP submission, by clients that others wrote: Python's smtplib, and swaks.

    tests/mail/submission.py [--engine sqlite|postgres]

Each client logs in with an API key, over STARTTLS, encrypted from the first byte, and in clear
on loopback, and hands in messages; a server in this process notes what is delivered to it, byte
by byte. What arrives must be what was handed in, but for the fields that are taken out and those
that are added at the front. The largest message must cost less than 32 MiB of memory, and a stop
must let a message be finished. Prints one line an engine; exits 1 if a promise was broken.
PostgreSQL is the one that $POSTHORN_TEST_POSTGRES points to.
"""

import argparse
import email.message
import email.policy
import json
import re
import smtplib
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from server import ENGINES, Server, free_port

LARGEST = 40 << 20  # bytes of a message
MEMORY = 32 << 10  # KiB that it may cost
SOON = 60.0  # seconds until what was queued is delivered
OFFERS = b"250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n"


class Sink(socketserver.ThreadingTCPServer):
    """A mail server that keeps what it is given, by recipient."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self):
        self.kept = {}
        super().__init__(("127.0.0.1", 0), Dialogue)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def arrived(self, recipient):
        deadline = time.monotonic() + SOON
        while recipient not in self.kept:
            assert time.monotonic() < deadline, f"nothing arrived for {recipient}"
            time.sleep(0.02)
        return self.kept[recipient]


class Dialogue(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"220 sink\r\n")
        recipient = None
        while line := self.rfile.readline():
            command = line[:4].upper()
            if command == b"RCPT":
                recipient = line.split(b"<")[1].split(b">")[0].decode()
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.kept[recipient] = b"".join(line.removeprefix(b".") for line in lines)
            replies = {b"EHLO": OFFERS, b"QUIT": b"221 bye\r\n"}
            self.wfile.write(replies.get(command, b"250 ok\r\n"))


class Post:
    """A server that takes mail by SMTP and hands it to a sink."""

    def __init__(self, engine):
        self.sink = Sink()
        self.store = ENGINES[engine]()
        self.port, self.tls_port = free_port(), free_port()
        certificate, key = (str(Path(self.store.dir) / name) for name in ("cert.pem", "cert.key"))
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        subprocess.run([*make, *subject, "-out", certificate, "-keyout", key], check=True, capture_output=True)
        self.context = ssl.create_default_context(cafile=certificate)
        self.server = Server(
            self.store,
            *("--submission-listen", f"127.0.0.1:{self.port}", "--submission-tls-listen", f"127.0.0.1:{self.tls_port}"),
            *("--submission-cert", certificate, "--submission-key", key, "--senders", "any"),
            *("--smtp-url", f"smtp://127.0.0.1:{self.sink.server_address[1]}"),
        )
        self.server.start().wait()
        self.key = self.server.create_key()

    def client(self, how, user="posthorn", key=None):
        """A client that has logged in: in `clear`, by `starttls`, or with `tls` from the first byte."""
        if how == "tls":
            client = smtplib.SMTP_SSL("localhost", self.tls_port, context=self.context, timeout=30)
        else:
            client = smtplib.SMTP("localhost", self.port, timeout=30)
        if how == "starttls":
            client.starttls(context=self.context)
        client.login(user, key or self.key)
        return client

    def shown(self, reply):
        """A mail as the API tells of it, by the reply to its message."""
        found = re.search(rb"Queued as ([0-9a-f-]{36})", reply)
        assert found, reply
        headers = {"Authorization": f"Bearer {self.key}"}
        status, _, body = self.server.ask("GET", f"/emails/{found[1].decode()}", headers=headers)
        assert status == 200, body
        return json.loads(body)

    def close(self):
        if self.server.process.poll() is None:
            self.server.stop()
        self.sink.shutdown()
        self.store.remove()


def letter(to, **more):
    message = email.message.EmailMessage(policy=email.policy.SMTP)
    message["From"] = "Acme <hello@acme.example>"
    message["To"] = to
    message["Subject"] = more.get("subject", "Hello")
    message["Message-ID"] = f"<{to}>"
    message.set_content(more.get("text", "Hi\n.\n..\nbye\n"))
    return message


def same(sent, arrived):
    """What arrived is what was sent, behind fields that were added."""
    head, _, body = sent.partition(b"\r\n\r\n")
    got_head, _, got_body = arrived.partition(b"\r\n\r\n")
    assert got_body == body, f"the body has changed:\n{got_body[:400]!r}\n{body[:400]!r}"
    assert head in got_head, f"the head has changed:\n{got_head!r}\n{head!r}"
    added = got_head.replace(head, b"")
    assert added.startswith(b"Received: from "), added
    assert b"re_" not in added, f"the key is in it: {added!r}"


def by_smtplib(post):
    count = 0
    for how in ("clear", "starttls", "tls"):
        for user in ("posthorn", "resend"):
            client = post.client(how, user)
            for kind in ("plain", "utf8", "attached"):
                to = f"{how}-{user}-{kind}@example.com"
                message = letter(to, subject="Grüße 📯" if kind == "utf8" else "Hello")
                if kind == "attached":
                    message.add_alternative("<p>Hi</p>", subtype="html")
                    message.add_attachment(bytes(range(256)) * 400, "application", "pdf", filename="ü.pdf")
                sent = message.as_bytes()
                client.ehlo_or_helo_if_needed()
                assert client.mail("hello@acme.example", ["BODY=8BITMIME"])[0] == 250
                client.rcpt(to)
                code, reply = client.data(sent)
                assert code == 250, reply
                shown = post.shown(reply)
                assert shown["message_id"] == f"<{to}>" and shown["subject"] == message["Subject"], shown
                assert shown["text"].replace("\r\n", "\n") == "Hi\n.\n..\nbye\n", shown
                assert (shown["html"] is None) == (kind != "attached"), shown
                same(sent, post.sink.arrived(to))
                count += 1
            client.quit()
    return count


def refused(post):
    for user, key in (("posthorn", "re_12345678_12345678901234567890123456789012"), ("root", post.key)):
        try:
            post.client("starttls", user, key)
            raise AssertionError("logged in")
        except smtplib.SMTPAuthenticationError as error:
            assert error.smtp_code == 535, error
    client = smtplib.SMTP("localhost", post.port, timeout=30)
    try:
        client.sendmail("a@acme.example", "b@example.com", "From: a@acme.example\r\n\r\nHi\r\n")
        raise AssertionError("relayed for a stranger")
    except smtplib.SMTPSenderRefused as error:
        assert error.smtp_code == 530, error


def by_swaks(post):
    def run(to, *more, key=post.key, port=post.port):
        command = ["swaks", "--server", "127.0.0.1", "--port", str(port), "--to", to, "--from", "hello@acme.example"]
        command += ["--auth-user", "posthorn", "--auth-password", key, "--timeout", "30", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    ways = {
        "plain": ["--auth", "PLAIN", "--tls"],
        "login": ["--auth", "LOGIN", "--tls"],
        "smtps": ["--auth", "PLAIN", "--tlsc"],
        "clear": ["--auth", "LOGIN", "--pipeline"],
        "attached": ["--auth", "PLAIN", "--tls", "--attach", f"@{__file__}"],
    }
    for name, more in ways.items():
        to = f"swaks-{name}@example.com"
        ran = run(to, *more, port=post.tls_port if name == "smtps" else post.port)
        assert ran.returncode == 0, f"swaks {name}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        assert "Queued as" in ran.stdout, ran.stdout
        assert b"swaks" in post.sink.arrived(to)
    wrong = run("nobody@example.com", "--auth", "PLAIN", "--tls", key="re_wrong")
    assert wrong.returncode == 28 and "535 5.7.8" in wrong.stdout, f"{wrong.returncode}\n{wrong.stdout}"
    return len(ways)


def largest(post):
    """The largest message there may be, and one byte more. Returns the KiB that it has cost."""

    process = Path(f"/proc/{post.server.process.pid}")

    def memory(field):
        return int(re.search(rf"{field}:\s+(\d+)", (process / "status").read_text())[1])

    head = b"From: hello@acme.example\r\nTo: large@example.com\r\nSubject: Large\r\n\r\n"
    line = b"0123456789" * 7 + b"\r\n"
    body = line * ((LARGEST - len(head)) // len(line))
    body += b"x" * (LARGEST - len(head) - len(body) - 2) + b"\r\n"
    (process / "clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    client = post.client("starttls")
    client.mail("", ["SIZE=" + str(LARGEST)])
    client.rcpt("large@example.com")
    code, reply = client.data(head + body)
    assert code == 250, reply
    cost = memory("VmHWM") - before
    arrived = post.sink.arrived("large@example.com")
    assert arrived.endswith(b"\r\n\r\n" + body), "the largest message has changed on its way"
    client.mail("")
    client.rcpt("large@example.com")
    code, reply = client.data(head + b"x" + body)
    assert code == 552, reply
    assert client.mail("", ["SIZE=" + str(LARGEST + 1)])[0] == 552
    return cost


def stop(post):
    """A message that is under way is finished, then the server takes leave."""
    client = post.client("tls")
    client.mail("")
    client.rcpt("stop@example.com")
    client.putcmd("DATA")
    assert client.getreply()[0] == 354
    client.send(b"From: hello@acme.example\r\n\r\nfirst\r\n")
    post.server.process.terminate()
    since = time.monotonic()
    time.sleep(0.5)
    client.send(b"second\r\n.\r\n")
    code, reply = client.getreply()
    assert code == 250, reply
    assert client.getreply()[0] == 421
    return post.server.ended(since)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=ENGINES, action="append")
    for engine in parser.parse_args().engine or ENGINES:
        post, began = Post(engine), time.monotonic()
        try:
            messages = by_smtplib(post)
            refused(post)
            messages += by_swaks(post)
            cost = largest(post)
            assert cost < MEMORY, f"the largest message cost {cost} KiB"
            took = stop(post)
        except AssertionError:
            print(post.server.tail(), file=sys.stderr)
            raise
        finally:
            post.close()
        print(
            f"{engine}: {messages} messages arrived as they were written, the largest cost {cost / 1024:.1f} MiB,"
            f" a stop took {took:.1f} s ({time.monotonic() - began:.0f} s in all)"
        )


if __name__ == "__main__":
    main()
