#!/usr/bin/env python3
"""kill -9 while mail comes in: whatever was acknowledged is there once, and whole.

    tests/faults/receiving.py [--rounds 3] [--seed N] [--engine sqlite|postgres]

Each round lets eight servers bring small and large mails over SMTP, kills the binary after 0.2
to 1.0 seconds and starts it again. Who got no answer brings the same message again, as mail
servers do. At the end every message that was ever acknowledged is in the store exactly once, with
all of its bytes. Prints one line an engine; exits 1 at the first that broke the promise.
"""

import argparse
import random
import smtplib
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from server import ENGINES, Server, free_port

BRINGERS = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args()
    print(f"seed {options.seed} (the moments of the kills; --seed {options.seed} repeats them)", flush=True)
    failed = [e for e in options.engine or ENGINES if not receive(e, options.rounds, random.Random(options.seed))]
    sys.exit(1 if failed else 0)


class Bringer:
    """A mail server: brings one message after the other, and the same again until it is told that it was taken."""

    def __init__(self, number, port):
        self.number, self.port = number, port
        self.sent, self.pending, self.taken, self.repeated = 0, None, {}, 0

    def message(self):
        lines = 9_000 if self.sent % 5 == 4 else 3
        head = f"From: ada@sender.example\r\nSubject: x\r\nMessage-ID: <{self.number}.{self.sent}@sender.example>\r\n\r\n"
        return head + f"{self.number} {self.sent} {'x' * 60}\r\n" * lines

    def bring(self, stopped):
        try:
            with smtplib.SMTP("127.0.0.1", self.port, local_hostname="bringer", timeout=20) as smtp:
                while not stopped.is_set():
                    self.repeated += self.pending is not None
                    self.pending = self.pending or self.message()
                    smtp.sendmail("", ["box@in.example"], self.pending.encode())
                    self.taken[f"<{self.number}.{self.sent}@sender.example>"] = len(self.pending)
                    self.sent, self.pending = self.sent + 1, None
        except (OSError, smtplib.SMTPException):
            pass  # Nobody knows what became of it: it is brought again.


def receive(engine, rounds, rng):
    """All rounds on one engine; True when nothing went wrong."""
    store, inbound = ENGINES[engine](), free_port()
    # Who wrote it is not what this is about: nothing is found, and at once.
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 0))
    threading.Thread(target=know_nothing, args=(names,), daemon=True).start()
    dns = f"127.0.0.1:{names.getsockname()[1]}"
    server = Server(store, "--inbound-listen", f"127.0.0.1:{inbound}", "--dns-server", dns)
    try:
        server.start().wait()
        fields = {"name": "in.example", "capabilities": {"receiving": "enabled"}}
        status, _, body = server.ask("POST", "/domains", fields, {"Authorization": f"Bearer {server.create_key()}"})
        assert status == 201, body
        store.run("UPDATE domains SET is_owned = TRUE")
        bringers = [Bringer(number, inbound) for number in range(BRINGERS)]
        for _ in range(rounds):
            bring(bringers, lambda: (time.sleep(rng.uniform(0.2, 1.0)), server.kill()))
            server.start().wait()
        bring(bringers, lambda: time.sleep(2))
        server.stop()
        problems = verify(store, bringers)
        for problem in problems[:10]:
            print(f"{engine}: {problem}", flush=True)
        taken, repeated = sum(len(b.taken) for b in bringers), sum(b.repeated for b in bringers)
        assert not problems and taken >= 10 * rounds, f"{len(problems)} problems, {taken} mails taken"
        print(f"{engine}: {rounds} kills, {taken} mails taken, {repeated} brought again, missing=0 twice=0 cut=0", flush=True)
        return True
    except AssertionError as problem:
        print(f"{engine}: FAILED: {problem}\n{server.tail()}", flush=True)
        return False
    finally:
        if server.process and server.process.poll() is None:
            server.kill()
        store.remove()


def know_nothing(names):
    """A DNS server that answers every question with: no such name."""
    while True:
        question, sender = names.recvfrom(4096)
        end = question.index(b"\0", 12) + 5
        names.sendto(question[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + question[12:end], sender)


def bring(bringers, until):
    stopped = threading.Event()
    threads = [threading.Thread(target=bringer.bring, args=(stopped,)) for bringer in bringers]
    for thread in threads:
        thread.start()
    until()
    stopped.set()
    for thread in threads:
        thread.join()


def verify(store, bringers):
    sizes = "SELECT message_id, size, (SELECT SUM(LENGTH(bytes)) FROM received_chunks c WHERE c.email_id = e.id)"
    found = {}
    problems = []
    for message_id, size, kept in store.query(f"{sizes} FROM received_emails e"):
        if message_id in found:
            problems.append(f"{message_id} is there twice")
        found[message_id] = int(size)
        if int(size) != int(kept):
            problems.append(f"{message_id} has {size} bytes, but {kept} are kept")
    for bringer in bringers:
        for message_id, size in bringer.taken.items():
            if found.get(message_id) != size:
                problems.append(f"{message_id} of {size} bytes was taken, and there are {found.get(message_id)}")
    return problems


if __name__ == "__main__":
    main()
