"""Which pages there are, as the routers in src/ tell, and a workspace that has one of everything to show on them."""

import json
import re
import sqlite3
import time
import uuid
from pathlib import Path

from person import Browser as Reader
from person import Page
from server import ROOT

SENDER = "Acme <hello@acme.example>"
# A page that is looked at, below the dashboard. In braces: the id of something that `furnish` or the test makes.
INSIDE = """
    / /account /account/second-factor /account/sessions/end-others /apps /apps/{grant}/revoke /audit
    /automations /automations?status=enabled /automations/new /automations/{automation} /automations/{automation}/delete
    /automations/{automation}/edit /automations/{automation}/edit?step=start /automations/{automation}/edit?step=pro
    /automations/{automation}/edit?step=receipt /automations/{automation}/edit?step=paid
    /automations/{automation}/edit?step=mark /automations/{automation}/edit?step=join
    /automations/{automation}/edit?step=pause /automations/{automation}/edit?step=tell
    /automations/{automation}/edit?step=forget /automations/{automation}/edit?step=end
    /automations/{automation}/edit?after=start&way=default
    /automations/{automation}/edit/discard /automations/{automation}/edit/publish
    /automations/{automation}/runs/{run} /automations/{automation}/runs/{failed_run}
    /automations/{automation}/runs/{run}/cancel
    /automations/{automation}/versions/1 /automations/{automation}/versions/1..2
    /branding /broadcasts /broadcasts/new /broadcasts/{broadcast} /broadcasts/{broadcast}/recipients
    /broadcasts/{draft} /broadcasts/{draft}/delete /broadcasts/{draft}/edit /broadcasts/{draft}/review
    /broadcasts/{planned} /broadcasts/{planned}/cancel
    /clients /clients/{client} /clients/{client}/delete
    /contacts /contacts?q=nobody /contacts/new /contacts/{contact} /contacts/{contact}/delete /contacts/{contact}/erase
    /deliverability /domains /domains/{domain} /domains/{domain}/delete /domains/{domain}/settings
    /emails /emails?search=nobody /emails/new /emails/{email} /emails/{bounced} /emails/{scheduled}
    /emails/{scheduled}/cancel /emails/{delayed} /emails/{delayed}/recipients/0/drop /erasures/{erasure}
    /events /events/new /events/send /events/{event} /events/{event}/delete /events/{event}/test
    /forms /forms/new /forms/{form} /forms/{form}/delete
    /imports /imports?status=failed /imports/{import} /imports/{waiting_import}/map
    /keys /keys/{key}/delete /keys/{key}/rename /logs /logs/{request} /occurrences/{occurrence}
    /password /properties /properties/{property}/delete
    /received /received/{received} /received/{received}/forward
    /runs /runs?status=failed&automation={automation}
    /segments /segments/new /segments/{segment} /segments/{segment}/delete /segments/{rules} /segments/{rules}/rules
    /segments/{rules}/rules/clear
    /settings /suppressions /suppressions/{suppression}/delete
    /team /team/leave /team/{colleague}/remove /team/{colleague}/transfer
    /team/invitations/{invited}/withdraw
    /templates /templates/new /templates/{template} /templates/{template}/delete /templates/{template}/edit
    /templates/{template}/publish /templates/{template}/test
    /topics /topics/{topic} /topics/{topic}/delete /usage
    /webhooks /webhooks/new /webhooks/{webhook} /webhooks/{webhook}/delete /webhooks/{webhook}/edit
    /webhooks/{webhook}/events/{webhook_event} /webhooks/{webhook}/rotate /workspaces
""".split()
# Below the dashboard, too, for whoever is not logged in.
DOORS = "/login /forgot /reset/{reset} /invitation/{invitation}".split()
# Before there is anything.
SETUP = "/setup/{setup}"
# Beside the API.
OUTSIDE = "/ /subscribe/{form} /subscribe/confirm/{confirmation} /unsubscribe/{preferences}".split()
# The documentation; what stands in braces there is read from its own list of contents.
DOCS = "/docs /docs/search?q=signature /docs/{page} /docs/api/{resource}".split()
# What is not looked at, and why.
LEFT_OUT = {
    "/automations/{id}/runs/{run_id}/messages/{message_id}/drop": "asks as /emails/{id}/recipients/{number}/drop does",
    "/.well-known/oauth-protected-resource/{*path}": "JSON",
    "/assets/{name}": "a file of the program",
    "/broadcasts/{id}/html": "a mail, seen in the frame of /broadcasts/{id}/review",
    "/colors/{name}": "a style sheet",
    "/contacts.csv": "a file",
    "/contacts/{contact}/export": "a file",
    "/docs/search.json": "JSON",
    "/emails/{id}/attachments/{attachment}": "a file",
    "/emails/{id}/html": "a mail, seen in the frame of /emails/{id}",
    "/emails/{id}/source": "a file",
    "/emails/{id}/text": "the text of a mail alone",
    "/llms.txt": "a file",
    "/messages": "leads to /emails",
    "/oauth/authorize/{id}": "asked for by an app: the tests of consent look at it in all its states",
    "/openapi.json": "JSON",
    "/received/{id}/attachments/{attachment}": "a file",
    "/received/{id}/html": "a mail, seen in the frame of /received/{id}",
    "/received/{id}/source": "a file",
    "/shared/attachments/{token}": "a file",
    "/shared/emails/{token}": "a mail alone, as in the frame of /emails/{id}",
    "/shared/received/{token}": "a file",
    "/suppressions/export": "a file",
    "/t/image/{token}": "a picture",
    "/t/link/{token}": "leads to where the link did",
    "/templates/{id}/html": "a mail, seen in the frame of /templates/{id}",
}
# Pages whose first form, sent as it is, is refused.
REFUSING = """
    /broadcasts/new /clients /contacts/new /domains /emails/new /events/new /forms/new /keys /password /properties
    /segments/new /suppressions /team /templates/new /topics /webhooks/new
""".split()


def routes():
    """The paths of everything that the program answers with GET, but for the API's own."""
    text = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.rs")))
    return set(re.findall(r'\.route\(\s*"([^"]+)",\s*(?:(?!\.route\().)*?\bget\(', text))


def shape(address):
    """The parts of an address, whatever stands in its braces."""
    parts = address.partition("?")[0].split("/")
    return [None if part.startswith("{") else part for part in parts]


def leads_to(address, known):
    """The path among those known that an address leads to: one without anything in braces is found first."""
    parts = shape(address)
    fits = [path for path in known if len(shape(path)) == len(parts)]
    fits = [path for path in fits if all(own in (None, part) for own, part in zip(shape(path), parts))]
    return min(fits, key=lambda path: path.count("{"), default=None)


def unseen():
    """Paths that nobody looks at and no reason leaves out; addresses and reasons for what is not there any more, and
    reasons for what is looked at."""
    known = routes()
    addresses = [*INSIDE, *DOORS, SETUP, *OUTSIDE, *DOCS]
    seen = {address: leads_to(address, known) for address in addresses}
    missing = known - set(seen.values()) - set(LEFT_OUT)
    stale = {address for address, path in seen.items() if path is None}
    stale |= {path for path in LEFT_OUT if path not in known or path in seen.values()}
    return sorted(missing), sorted(stale)


def wait(reached, what):
    until = time.monotonic() + 30
    while not (value := reached()):
        assert time.monotonic() < until, f"{what} did not come"
        time.sleep(0.02)
    return value


def furnish(server, hook):
    """Makes one of everything over the API, and of some things one that is too long; returns the ids by their names."""
    key = {"Authorization": f"Bearer {server.create_key()}"}
    made = {}

    def call(method, path, body=None):
        status, _, answer = server.ask(method, path, body, headers=key)
        assert status in (200, 201, 202), f"{method} {path}: {status} {answer}"
        return json.loads(answer)

    def make(name, path, body):
        made[name] = call("POST", path, body)["id"]
        return made[name]

    def find(name, sql):
        made[name] = wait(lambda: server.store.query(sql), sql)[0][0]

    make("property", "/contact-properties", {"key": "plan", "type": "string", "fallback_value": "f" * 200})
    make("webhook", "/webhooks", {"endpoint": f"{hook}/{'hook' * 40}", "events": ["contact.created", "email.bounced"]})
    make("domain", "/domains", {"name": f"{'long-' * 12}a.example.com"})
    topic = make("topic", "/topics", {"name": "W" * 50, "default_subscription": "opt_in", "visibility": "public",
                                      "description": "About once a month."})
    segment = make("segment", "/segments", {"name": "newsletter" * 25})
    rule = {"type": "rule", "field": "contact.properties.plan", "operator": "eq", "value": "pro"}
    make("rules", "/segments", {"name": "Pro", "filter": rule})
    make("form", "/forms", {"name": "Footer", "from": SENDER, "heading": "H" * 100, "topics": [topic], "enabled": True})
    make("suppression", "/suppressions", {"email": "gone@example.com"})
    template = {"name": "Receipt", "from": SENDER, "subject": "Your order, {{{NAME}}}", "html": "<h1>Thank you, {{{NAME}}}</h1>",
                "variables": [{"key": "NAME", "type": "string", "fallback_value": "dear customer"}]}
    template = make("template", "/templates", template)
    call("POST", f"/templates/{template}/publish", {})
    call("PATCH", f"/templates/{template}", {"html": "<h1>Many thanks, {{{NAME}}}</h1>\n<p>We will write again.</p>"})
    make("event", "/events", {"name": "order.placed", "schema": {"plan": "string", "amount": "number"}})
    call("POST", "/events", {"name": "order.paid"})
    automate(call, make, template)
    call("POST", "/contacts", {"email": f"{'wide' * 60}@example.com", "unsubscribed": True})
    for email, plan in (("ada@example.com", "free"), (f"{'wide' * 15}@{'w' * 60}.example", "pro")):
        person = {"email": email, "first_name": "W" * 200, "properties": {"plan": plan}, "segments": [{"id": segment}]}
        make("contact", "/contacts", {**person, "topics": [{"id": topic, "subscription": "opt_in"}]})
        payload = {"plan": plan, "amount": 49.9, "items": ["Espresso machine", "i" * 200]}
        call("POST", "/events/send", {"event": "order.placed", "email": email, "payload": payload})
    # Who has no plan to pay for comes to a step that fails.
    waits = "SELECT 1 FROM runs r JOIN contacts c ON c.id = r.contact_id WHERE r.waiting_for IS NOT NULL"
    wait(lambda: len(server.store.query(waits)) == 2, "a run that waits")
    call("POST", "/events/send", {"event": "order.paid", "email": "ada@example.com", "payload": {}})
    find("failed_run", "SELECT id FROM runs WHERE status = 'failed'")
    find("run", "SELECT id FROM runs WHERE waiting_for IS NOT NULL")
    find("occurrence", "SELECT id FROM occurrences WHERE name = 'order.placed'")
    news = {"name": "N" * 100, "segment_id": segment, "topic_id": topic, "from": SENDER, "subject": "S" * 200,
            "html": '<p>It has begun. <a href="{{{RESEND_UNSUBSCRIBE_URL}}}">No more of this</a></p>'}
    broadcast = make("broadcast", "/broadcasts", news)
    call("POST", f"/broadcasts/{broadcast}/send", {})
    make("draft", "/broadcasts", news)
    mail = {"from": SENDER, "to": ["ada@example.com", f"{'wide' * 15}@example.com"], "subject": "S" * 300, "text": "Hello",
            "html": "<h1>Hello</h1>" * 20, "headers": {"X-Long": "h" * 200}}
    attached = [{"filename": f"{'terms' * 40}.txt", "content": "aGVsbG8="}]
    make("email", "/emails", mail)
    make("bounced", "/emails", {**mail, "to": "bounced+a@posthorn.test"})
    make("scheduled", "/emails", {**mail, "scheduled_at": "in 1 hour", "attachments": attached})
    erased = call("POST", "/contacts", {"email": "erased@example.com"})["id"]
    call("POST", f"/contacts/{erased}/erase", {})
    find("erasure", "SELECT id FROM erasures")
    find("request", "SELECT id FROM request_log")
    find("key", "SELECT id FROM api_keys")
    find("webhook_event", "SELECT event_id FROM webhook_attempts")
    receive(server, made)
    made["confirmation"] = subscribe(server, made["form"])
    wait(lambda: not server.store.query("SELECT 1 FROM broadcasts WHERE due_at IS NOT NULL"), "the end of the broadcast")
    busy = "SELECT 1 FROM email_recipients WHERE due_at IS NOT NULL AND email_id <> x'{}'"
    wait(lambda: not server.store.query(busy.format(made["scheduled"].replace("-", ""))), "the last mail")
    planned = make("planned", "/broadcasts", news)
    call("POST", f"/broadcasts/{planned}/send", {"scheduled_at": "in 1 hour"})
    delay(server, make("delayed", "/emails", {**mail, "scheduled_at": "in 1 hour"}))
    return made


def automate(call, make, template):
    """An automation with two versions and a step of each type; one comes to a step that fails, nobody beyond."""
    rule = {"type": "rule", "field": "event.plan", "operator": "eq", "value": "pro"}
    steps = [
        {"key": "start", "type": "trigger", "config": {"event_name": "order.placed"}},
        {"key": "receipt", "type": "send_email", "config": {"template": {"id": template}}},
        {"key": "paid", "type": "wait_for_event", "config": {"event_name": "order.paid", "timeout": "30 days"}},
        {"key": "pro", "type": "condition", "config": rule},
        {"key": "mark", "type": "contact_update", "config": {"properties": {"plan": {"var": "event.plan"}}}},
        {"key": "join", "type": "add_to_segment", "config": {"segment_id": str(uuid.UUID(int=0))}},
        {"key": "pause", "type": "delay", "config": {"duration": "1 day 12 hours"}},
        {"key": "tell", "type": "webhook", "config": {"url": f"https://example.com/{'hook' * 40}"}},
        {"key": "forget", "type": "contact_delete", "config": {}},
        {"key": "end", "type": "exit", "config": {}},
    ]
    ways = [
        {"from": "start", "to": "receipt"},
        {"from": "receipt", "to": "paid"},
        {"from": "paid", "to": "pro", "type": "event_received"},
        {"from": "pro", "to": "mark", "type": "condition_met"},
        {"from": "pro", "to": "join", "type": "condition_not_met"},
        {"from": "mark", "to": "pause"},
        {"from": "pause", "to": "tell"},
        {"from": "tell", "to": "end"},
        {"from": "join", "to": "forget"},
    ]
    first = {"name": "A" * 120, "status": "enabled", "steps": steps[:3], "connections": ways[:2]}
    automation = make("automation", "/automations", first)
    call("PATCH", f"/automations/{automation}", {"steps": steps, "connections": ways})


def delay(server, email):
    """Leaves a mail as a server does that asks for it later."""
    with sqlite3.connect(Path(server.store.dir) / "posthorn.db", timeout=30) as store:
        reason = "451 4.7.1 Greylisted, please try again in 300 seconds"
        done = store.execute("UPDATE email_recipients SET state = 30, tries = 1, reason = ? WHERE email_id = ?",
                             [reason, uuid.UUID(email).bytes])
        assert done.rowcount == 2, done.rowcount


def receive(server, made, html="<p>Why?</p>"):
    """A mail that came in, as the listener would have left it."""
    received = uuid.uuid4()
    envelope = {"to": ["hello@acme.example"], "received_for": ["hello@acme.example"]}
    with sqlite3.connect(Path(server.store.dir) / "posthorn.db", timeout=30) as store:
        store.execute(
            "INSERT INTO received_emails (id, workspace_id, domain_id, created_at, digest, sender, subject, message_id,"
            " envelope, html, text, size)"
            " SELECT ?1, workspace_id, id, created_at, ?1, 'Ada <ada@example.com>', ?2, '<a@example.com>', ?3,"
            " ?4, 'Why?', 12 FROM domains ORDER BY id DESC LIMIT 1",
            [received.bytes, "A question " + "w" * 200, json.dumps(envelope), html],
        )
    made["received"] = str(received)


def subscribe(server, form):
    """What a stranger's link holds who has filled in a form."""
    reader, address = Reader(), f"{server.base}/subscribe/{form}"
    fields = dict(Page(reader.open(address)[2]).form(field="email")["fields"]) | {"email": "new@example.com"}
    status, _, body = reader.open(address, fields)
    assert status in (200, 303), body
    sent = "SELECT text FROM emails WHERE text LIKE '%/subscribe/confirm/%'"
    return re.search(r"/subscribe/confirm/(\S+)", wait(lambda: server.store.query(sent), sent)[0][0])[1]


def forget_password(server, email):
    """What the link holds that is sent to whoever has forgotten the password."""
    assert Reader().open(f"{server.base}/dashboard/forgot", {"email": email})[0] == 303
    sent = "SELECT text FROM emails WHERE text LIKE '%/reset/%'"
    return re.search(r"/reset/(\S+)", wait(lambda: server.store.query(sent), sent)[0][0])[1]
