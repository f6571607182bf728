#!/usr/bin/env python3
"""A broadcast under kill -9: everybody is a recipient once, and gets it once or is told of as uncertain.

    tests/faults/broadcast.py [--rounds 20] [--seed N] [--engine sqlite|postgres] [SCENARIO…]

kill     one process is killed and started again while it takes the audience and delivers
two      two processes on one PostgreSQL; in each round one of them is killed

Each round sends a broadcast to 20,000 people through a server in
this process that notes every message it is given whole. It kills while the audience is taken and while mail
leaves. At the end everybody is a recipient once, whoever is delivered to has got the mail once, and all others
are uncertain and held, because a broadcast is never sent twice where nobody knows. Prints one line a scenario;
exits 1 if one of them broke the promise. PostgreSQL is the one that $POSTHORN_TEST_POSTGRES points to.
"""

import collections
import json
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mail
from scene import play_all

PEOPLE = 20_000
KILLS = 3  # of each broadcast
AT_ONCE = 500  # rows of an INSERT
ENDED_WITHIN = 900.0  # seconds: a killed process's claims are free after 30
DELIVERED, UNCERTAIN = "40", "28"


class Broadcast(mail.Post):
    """Servers that hand all mail to the sink, and a segment with many people in it."""

    def id(self, text):
        return f"X'{uuid.UUID(text).hex}'" if self.engine == "sqlite" else f"'{uuid.UUID(text)}'"

    def ask(self, method, path, body=None):
        status, _, answer = self.servers[0].ask(method, path, body, {"Authorization": f"Bearer {self.key}"})
        assert status < 300, f"{method} {path}: {status} {answer[:300]!r}"
        return json.loads(answer)

    def fill(self):
        self.segment = self.ask("POST", "/segments", {"name": "All"})["id"]
        contact = self.ask("POST", "/contacts", {"email": "first@example.com"})["id"]
        workspace = f"(SELECT workspace_id FROM contacts WHERE id = {self.id(contact)})"
        for start in range(0, PEOPLE, AT_ONCE):
            ids = [(number, self.id(str(uuid.UUID(int=number + 1)))) for number in range(start, min(start + AT_ONCE, PEOPLE))]
            contacts = ", ".join(
                f"({workspace}, {id}, 'r{number}@example.com', 'r{number}@example.com', FALSE, '{{}}', 2, 0)" for number, id in ids
            )
            members = ", ".join(f"({workspace}, {self.id(self.segment)}, {id}, 0)" for _, id in ids)
            self.store.run(
                "INSERT INTO contacts (workspace_id, id, email, email_key, unsubscribed, properties, sequence, created_at)"
                f" VALUES {contacts}"
            )
            self.store.run(f"INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at) VALUES {members}")

    def send(self):
        fields = {"segment_id": self.segment, "from": "News <news@sender.example>", "subject": "Hello", "send": True}
        return self.ask("POST", "/broadcasts", fields | {"html": "<p>Hello {{{FIRST_NAME|there}}}, {{{EMAIL}}}</p>"})["id"]

    def wait_for_end(self, id):
        began = time.monotonic()
        while (read := self.ask("GET", f"/broadcasts/{id}"))["state"] != "sent":
            assert time.monotonic() - began < ENDED_WITHIN, f"it is still {read['state']}: {read['progress']}"
            time.sleep(0.5)
        return time.monotonic() - began

    def check(self, id):
        """What became of one broadcast: how long after the last kill it ended, and how many are held."""
        ended = self.wait_for_end(id)
        rows = self.store.query(f"SELECT number, address, state FROM email_recipients WHERE email_id = {self.id(id)}")
        addresses = collections.Counter(address for _, address, _ in rows)
        missing = {f"r{number}@example.com" for number in range(PEOPLE)} - set(addresses)
        assert not missing, f"{len(missing)} people are no recipients: {sorted(missing)[:3]}"
        assert len(rows) == PEOPLE, f"{len(rows) - PEOPLE} people are recipients twice"
        own = {number: f"<{uuid.UUID(int=uuid.UUID(id).int | int(number))}@sender.example>" for number, _, _ in rows}
        lost = [number for number, _, state in rows if state == DELIVERED and self.sink.taken[own[number]] != 1]
        assert not lost, f"{len(lost)} are delivered to and did not get the mail once: {lost[:3]}"
        twice = [id for id, count in self.sink.taken.items() if count > 1]
        assert not twice, f"{len(twice)} mails arrived twice, though nobody decided so: {twice[:3]}"
        others = collections.Counter(state for _, _, state in rows if state not in (DELIVERED, UNCERTAIN))
        assert not others, f"recipients ended otherwise: {others}"
        held = sum(state == UNCERTAIN for _, _, state in rows)
        most = KILLS * mail.CONNECTIONS
        assert held <= most, f"{held} uncertain after {KILLS} kills, {most} at most"
        return ended, held


def run(stage, count):
    servers = stage.set(servers=count)
    stage.fill()
    held, slowest = 0, 0.0
    for number in range(stage.rounds):
        stage.sink.taken.clear()
        id = stage.send()
        for kill in range(KILLS):
            # While the audience is taken, or while mail leaves.
            time.sleep(stage.rng.uniform(0.0, 0.3 if (number + kill) % 2 == 0 else 1.5))
            victim = stage.rng.choice(servers)
            victim.kill()
            victim.start().wait()
        ended, uncertain = stage.check(id)
        held, slowest = held + uncertain, max(slowest, ended)
    for server in servers:
        server.stop()
    assert stage.store.integrity() == "ok"
    kills = stage.rounds * KILLS
    return (
        f"{stage.rounds} broadcasts to {PEOPLE} people, {kills} kills, everybody was a recipient once, lost=0,"
        f" none arrived twice, {held} uncertain and held (at most {kills * mail.CONNECTIONS}), the slowest ended"
        f" {slowest:.0f} s after its last kill, integrity ok"
    )


def kill(stage):
    """kill -9 while the audience is taken and while mail leaves."""
    return run(stage, 1)


def two(stage):
    """One of two processes dies; the other one goes on."""
    return run(stage, 2)


SCENARIOS = {"kill": (kill, ["sqlite", "postgres"]), "two": (two, ["postgres"])}

if __name__ == "__main__":
    play_all(__doc__, SCENARIOS, Broadcast, rounds=20)
