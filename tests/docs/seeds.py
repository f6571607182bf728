"""What examples of the API reference name: for each of them something of its own, made before it runs.

An example that deletes something would leave nothing for the next one, so nothing is shared that an example changes.
"""

import http.client
import json
import re
import smtplib
import time
import uuid
from email.message import EmailMessage
from urllib.parse import parse_qs, quote, urlsplit

import person

OWNER = ("owner@example.com", "a few plain words")
FROM = "Acme <hello@acme.example>"
REDIRECT = "http://127.0.0.1:9999/oauth/callback"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
LIMIT = 20  # seconds to wait for what a worker does

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Seeds:
    """Makes things over the API of one server."""

    def __init__(self, server, key, inbound):
        self.server, self.key = server, key
        server.create_user(*OWNER)
        self.received = self.receive(inbound)

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}"}
        status, _, answer = self.server.ask(method, path, body, headers, timeout=60)
        assert status < 300, f"{method} {path} {body}: {status} {answer.decode(errors='replace')}"
        return json.loads(answer)

    def id(self, path, body=None):
        return self.ask("POST", path, body)["id"]

    def wait(self, path, found):
        """What a list holds, once it holds something."""
        until = time.monotonic() + LIMIT
        while True:
            there = [one for one in self.ask("GET", path)["data"] if found(one)]
            if there:
                return there[0]["id"]
            assert time.monotonic() < until, f"{path} has nothing of the kind after {LIMIT} seconds"
            time.sleep(0.02)

    def write(self, sql, one):
        """Changes a row of the store, as if what takes days or another server had happened."""
        value = f"X'{uuid.UUID(one).hex}'" if self.server.store.engine == "sqlite" else f"'{one}'"
        self.server.store.run(sql.format(id=value))

    # ---- things ------------------------------------------------------------

    def mail(self, **fields):
        mail = {"from": FROM, "to": "ada@example.com", "subject": "Hello", "text": "It works."}
        return self.id("/emails", mail | fields)

    def later(self):
        return self.mail(scheduled_at="in 1 day")

    def uncertain(self):
        """A mail of which nobody knows whether it arrived."""
        mail = self.later()
        self.write(
            "UPDATE email_recipients SET state = 28, due_at = NULL, reason = 'the connection was lost' "
            "WHERE email_id = {id}",
            mail,
        )
        return mail

    def attachment(self):
        mail = self.mail(attachments=[{"filename": "a.txt", "content": "YQ=="}])
        return {"id": mail, "attachment_id": self.ask("GET", f"/emails/{mail}/attachments")["data"][0]["id"]}

    def receive(self, port):
        """A mail that has come in for a domain whose records were seen."""
        self.domain = self.id("/domains", {"name": "in.example", "capabilities": {"receiving": "enabled"}})
        self.server.store.run("UPDATE domains SET is_owned = TRUE WHERE name = 'in.example'")
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = "Ada <ada@example.com>", "box@in.example", "Hello"
        message["Message-ID"] = "<1@example.com>"
        message.set_content("It works.\n")
        message.add_attachment(b"a,b\n", maintype="text", subtype="csv", filename="rows.csv")
        with smtplib.SMTP("127.0.0.1", port) as smtp:
            smtp.send_message(message)
        return self.wait("/emails/receiving", lambda one: True)

    def received_attachment(self):
        files = self.ask("GET", f"/emails/receiving/{self.received}/attachments")["data"]
        return {"id": self.received, "attachment_id": files[0]["id"]}

    def segment(self):
        return self.id("/segments", {"name": f"Segment {uuid.uuid4()}"})

    def email(self):
        """The address of a contact."""
        email = f"ada-{uuid.uuid4().hex}@example.com"
        self.id("/contacts", {"email": email})
        return email

    def member(self):
        segment, email = self.segment(), self.email()
        self.id(f"/contacts/{email}/segments/{segment}")
        return {"contact": email, "segment_id": segment, "audience_id": segment}

    def topic(self):
        return self.id("/topics", {"name": f"Topic {uuid.uuid4()}", "default_subscription": "opt_in"})

    def property(self):
        key = f"key_{uuid.uuid4().hex[:20]}"
        return self.id("/contact-properties", {"key": key, "type": "string", "fallback_value": "none"})

    def imported(self):
        """A file of contacts that was handed in."""
        head = 'Content-Disposition: form-data; name="file"; filename="a.csv"'
        body = f"--mark\r\n{head}\r\n\r\nemail\nlist@example.com\n\r\n--mark--\r\n"
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "multipart/form-data; boundary=mark"}
        connection.request("POST", "/contacts/imports", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status == 201, text
        return json.loads(text)["id"]

    def erased(self):
        return self.id(f"/contacts/{self.email()}/erase", {"suppress": False})

    def suppressed(self):
        email = f"left-{uuid.uuid4().hex}@example.com"
        self.id("/suppressions", {"email": email})
        return email

    def broadcast(self, state=None):
        given = {"segment_id": self.member()["segment_id"], "from": FROM, "subject": "News", "html": "<p>News.</p>"}
        broadcast = self.id("/broadcasts", given)
        if state == "scheduled":
            self.id(f"/broadcasts/{broadcast}/send", {"scheduled_at": "in 1 day"})
        elif state:
            self.write(f"UPDATE broadcasts SET state = '{state}', started_at = created_at WHERE id = {{id}}", broadcast)
        return broadcast

    def template(self):
        """The alias of a template that was published."""
        alias = f"order-{uuid.uuid4().hex}"
        variables = [{"key": "ORDER_ID", "type": "string"}]
        given = {"name": "Order", "alias": alias, "from": FROM, "subject": "Order {{{ORDER_ID}}}", "html": "<p>Hi</p>"}
        self.id("/templates", given | {"variables": variables})
        self.id(f"/templates/{alias}/publish")
        return alias

    def version(self):
        template = self.template()
        return {"id": template, "version_id": self.ask("GET", f"/templates/{template}/versions")["data"][0]["id"]}

    def api_key(self):
        return self.id("/api-keys", {"name": "Another"})

    def another_domain(self):
        """For all but those who delete it, the one that receives mail will do: its keys take a while to make."""
        return self.id("/domains", {"name": "another.example"})

    def seen_domain(self):
        self.write("UPDATE dkim_keys SET seen_at = created_at WHERE domain_id = {id}", self.domain)
        return self.domain

    def form(self):
        return self.id("/forms", {"name": "Footer", "from": FROM})

    def event(self):
        """The name of an event."""
        name = f"event.{uuid.uuid4().hex}"
        self.id("/events", {"name": name})
        return name

    def occurrence(self):
        name = self.event()
        self.ask("POST", "/events/send", {"event": name, "email": self.email()})
        return self.ask("GET", f"/events/{name}/occurrences")["data"][0]["id"]

    def automation(self, step=None, name=None):
        step = step or {"type": "delay", "config": {"duration": "1 day"}}
        start = {"key": "start", "type": "trigger", "config": {"event_name": name or self.event()}}
        given = {"name": "Welcome", "status": "enabled", "steps": [start, step | {"key": "next"}]}
        return self.id("/automations", given | {"connections": [{"from": "start", "to": "next"}]})

    def run(self):
        name = self.event()
        automation = self.automation(name=name)
        self.ask("POST", "/events/send", {"event": name, "email": self.email()})
        return {"id": automation, "run_id": self.wait(f"/automations/{automation}/runs", lambda one: True)}

    def failed_run(self):
        """A run that could not put its contact into a segment, because that is gone."""
        name, segment = self.event(), self.segment()
        automation = self.automation({"type": "add_to_segment", "config": {"segment_id": segment}}, name)
        self.ask("DELETE", f"/segments/{segment}")
        self.ask("POST", "/events/send", {"event": name, "email": self.email()})
        has_failed = lambda one: one["status"] == "failed"
        return {"id": automation, "run_id": self.wait(f"/automations/{automation}/runs", has_failed)}

    def webhook(self):
        return self.id("/webhooks", {"endpoint": "https://example.com/hook", "events": ["contact.created"]})

    def webhook_event(self):
        webhook = self.webhook()
        self.email()
        return {"id": webhook, "event_id": self.wait(f"/webhooks/{webhook}/events", lambda one: True)}

    def log(self):
        return self.wait("/logs", lambda one: True)

    def client(self):
        return self.server.create_client(REDIRECT)

    def code(self):
        """A client, and the code that it got when the owner let it in."""
        client = self.client()
        asked = f"client_id={client}&response_type=code&redirect_uri={quote(REDIRECT, safe='')}&state=x"
        asked += f"&code_challenge={CHALLENGE}&code_challenge_method=S256"
        callback = person.answer(f"{self.server.base}/oauth/authorize?{asked}", *OWNER)
        return client, parse_qs(urlsplit(callback).query)["code"][0]

    def grant(self):
        """A client, a token of it and the grant behind that."""
        client, code = self.code()
        body = {"grant_type": "authorization_code", "client_id": client, "code": code}
        body |= {"redirect_uri": REDIRECT, "code_verifier": VERIFIER}
        status, _, tokens = self.server.ask("POST", "/oauth/token", body)
        assert status == 200, f"trading a code: {status} {tokens}"
        grants = self.ask("GET", "/oauth/grants")["data"]
        grant = next(one["id"] for one in grants if client in json.dumps(one))
        return client, json.loads(tokens)["access_token"], grant


# What stands in the path of an operation, by the beginning of the path; the first that fits.
PLACES = (
    ("/emails/receiving/{id}/attachments/{attachment_id}", Seeds.received_attachment),
    ("/emails/receiving/{id}", lambda seeds: {"id": seeds.received}),
    ("/emails/{id}/attachments", Seeds.attachment),
    ("/emails/{id}", lambda seeds: {"id": seeds.mail()}),
    ("/broadcasts/{id}", lambda seeds: {"id": seeds.broadcast()}),
    ("/templates/{id}/versions/{version_id}", Seeds.version),
    ("/templates/{id}", lambda seeds: {"id": seeds.template()}),
    ("/api-keys/{id}", lambda seeds: {"id": seeds.api_key()}),
    ("/domains/{id}", lambda seeds: {"id": seeds.domain}),
    ("/contacts/imports/{id}", lambda seeds: {"id": seeds.imported()}),
    ("/contacts/{contact}", Seeds.member),
    ("/contact-erasures/{id}", lambda seeds: {"id": seeds.erased()}),
    ("/contact-properties/{id}", lambda seeds: {"id": seeds.property()}),
    ("/segments/{id}", lambda seeds: {"id": seeds.segment()}),
    ("/audiences/{audience_id}/contacts/{contact}", Seeds.member),
    ("/audiences/{id}", lambda seeds: {"id": seeds.segment()}),
    ("/topics/{id}", lambda seeds: {"id": seeds.topic()}),
    ("/suppressions/{suppression}", lambda seeds: {"suppression": seeds.suppressed()}),
    ("/forms/{id}", lambda seeds: {"id": seeds.form()}),
    ("/events/{identifier}", lambda seeds: {"identifier": seeds.event()}),
    ("/occurrences/{id}", lambda seeds: {"id": seeds.occurrence()}),
    ("/automations/{id}/runs/{run_id}", Seeds.run),
    ("/automations/{id}", lambda seeds: {"id": seeds.automation()}),
    ("/webhooks/{id}/events/{event_id}", Seeds.webhook_event),
    ("/webhooks/{id}", lambda seeds: {"id": seeds.webhook()}),
    ("/oauth/grants/{id}", lambda seeds: {"id": seeds.grant()[2]}),
    ("/logs/{id}", lambda seeds: {"id": seeds.log()}),
)

# Operations that want more of it than that it is there.
IN_STATE = {
    "reschedule_email": lambda seeds: {"id": seeds.later()},
    "cancel_email": lambda seeds: {"id": seeds.later()},
    "retry_email": lambda seeds: {"id": seeds.uncertain()},
    "drop_email": lambda seeds: {"id": seeds.uncertain()},
    "mark_email_delivered": lambda seeds: {"id": seeds.uncertain()},
    "cancel_broadcast": lambda seeds: {"id": seeds.broadcast("scheduled")},
    "pause_broadcast": lambda seeds: {"id": seeds.broadcast("sending")},
    "resume_broadcast": lambda seeds: {"id": seeds.broadcast("paused")},
    "delete_domain": lambda seeds: {"id": seeds.another_domain()},
    "rotate_dkim_keys": lambda seeds: {"id": seeds.seen_domain()},
    "retry_automation_run": Seeds.failed_run,
    "publish_template": Seeds.version,
}


def token(seeds, _):
    client, code = seeds.code()
    return [client], [("the code from the callback", code)]


def revoked(seeds, _):
    client, access, _ = seeds.grant()
    return [client], [("the token to give back", access)]


# Ids that stand elsewhere, in the order in which they stand there, and other words that stand for something.
ELSEWHERE = {
    "create_contact": lambda seeds, _: ([], [("ada@example.com", f"ada-{uuid.uuid4().hex}@example.com")]),
    "create_broadcast": lambda seeds, _: ([seeds.segment()], []),
    "publish_template": lambda seeds, path: ([path["version_id"]], []),
    "choose_contact_topics": lambda seeds, _: ([seeds.topic()], []),
    "authorize": lambda seeds, _: ([seeds.client()], []),
    "token": token,
    "revoke": revoked,
}


def place(path):
    """The first of PLACES that a path begins with: how it begins, and what makes what stands in it."""
    return next(one for one in PLACES if path.startswith(one[0]))


def stale(operations):
    """Entries of the lists above that are about nothing; operations by their names, each with its path first."""
    for name in sorted({*IN_STATE, *ELSEWHERE} - set(operations)):
        yield f"there is no operation {name} to make something for"
    paths = [path for name, (path, *_) in operations.items() if "{" in path and name not in IN_STATE]
    for start in sorted({start for start, _ in PLACES} - {place(path)[0] for path in paths}):
        yield f"no path that begins with {start} needs something"


def replaced(seeds, operation, path, code):
    """What stands for what in the code of an operation."""
    base, pairs, in_path = seeds.server.base, [], {}
    if "{" in path:
        make = IN_STATE.get(operation) or place(path)[1]
        in_path = make(seeds)
        parts = [re.escape(part) for part in re.split(r"\{\w+\}", path)]
        # A command has the address elsewhere.
        before = rf"(?P<before>{re.escape(base)}|posthorn api [A-Z]+ '?)"
        shown = re.search(before + r"[^/?\"'\s]+".join(parts) + r"(?=[?\"'\s]|$)", code)
        assert shown, f"{path} is not in its example"
        real = re.sub(r"\{(\w+)\}", lambda found: quote(in_path[found[1]], safe="@"), path)
        pairs.append((shown[0], shown["before"] + real))
        code = code.replace(*pairs[0])
    ids, words = ELSEWHERE[operation](seeds, in_path) if operation in ELSEWHERE else ([], [])
    there = [one for one in dict.fromkeys(UUID.findall(code)) if one not in in_path.values()]
    assert len(there) == len(ids), f"nobody has made what {', '.join(there) or 'nothing'} stands for"
    for old, _ in words:
        assert old in code, f"{old!r} is not in its example"
    return pairs + list(zip(there, ids)) + words
